"""tracer_record: buffers, and the rows of one tape while it is being recorded.

A buffer is a storage. It is in one of two states:
  known    its bytes are a function of nothing but the candidate's source (arange, a literal, a
           parameter under construction). Operators over known buffers simply run, on the CPU; no
           row is recorded, and the value may be read.
  unknown  it exists only as shape: operators over it run on the meta device and leave rows.
A known buffer that meets an unknown one, or a launch, is frozen: it becomes a constant of the tape,
with its contents.

Buffers get their number in a tape when they are first used in it, so that a workspace kept from an
earlier forward gives the same tape as a fresh one. Fills are recorded late, at the first use, for
the same reason. A buffer that a former forward *computed* has no rows in the new tape, and the
tapes differ: caching across calls shows.
"""
import base64
import math
import sys

import torch

import tracer_cuda
import tracer_memory
import tracer_value
from tracer_fault import Fault

ADDRESS_SHIFT = 40
BUFFERS_MAX = 4096
ROWS_MAX = 4096
KERNELS_MAX = 128
STREAMS_MAX = 64
EVENTS_MAX = 1024
MADE_MAX = 400                 # operators on constants that one forward may have
MADE_BYTES_MAX = 1 << 30       # what one operator on constants is taken to move at most
MADE_PIECE_BYTES = 1 << 24     # the memory that stands for it, written again and again
# Bytes that a GPU moves in its own memory (some 4e12 a second) while one comes from the host's
# (5e10 by PCIe of generation 5, from pinned memory).
HOST_BYTES = 80
CONST_BYTES_MAX = 40 << 20     # base64 of all constants has to fit into TAPE_BYTES_MAX
BUFFER_BYTES_MAX = 1 << 36
FOLD_BYTES_MAX = 4 << 20
SOURCE_NAME = "candidate.py"

DTYPE_NAMES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2", torch.int8: "int8", torch.int16: "int16",
    torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8", torch.uint16: "uint16", torch.uint32: "uint32",
    torch.uint64: "uint64", torch.bool: "bool",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


def candidate_line():
    """Line of the innermost frame that is the candidate's own, 0 when there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == SOURCE_NAME:
            return frame.f_lineno
        frame = frame.f_back
    return 0


class Buffer:
    __slots__ = ("kind", "bytes", "storage", "past", "cpu", "epoch", "number", "number_epoch", "origin", "name",
                 "input", "read_epoch", "stale_epoch", "written_epoch")

    def __init__(self, storage, epoch, kind="temp"):
        self.kind = kind            # input, param, const, temp
        self.storage = storage      # of the inner tensors: CPU while known, meta afterwards
        self.past = []              # former storages: kept alive, because by_storage knows them by address
        self.bytes = storage.nbytes()
        self.cpu = None             # a constant's contents once frozen
        self.epoch = epoch          # 0: made before the first forward; else the forward that made it
        self.number = -1
        self.number_epoch = -1      # the tape (forward) that `number` belongs to
        self.origin = None          # "empty", or ("fill", dtype, value) while nothing else was written
        self.name = None
        self.input = 0
        self.read_epoch = -1        # the last forward in which something may have read it
        self.written_epoch = -1     # the last forward that wrote to it
        # the first forward that may have left something in it: later ones cannot have its first
        # contents
        self.stale_epoch = 0

    @property
    def known(self):
        return self.storage.device.type == "cpu"


class Recorder:
    """All that one trace knows. One per process."""

    def __init__(self):
        self.epoch = 0
        self.calls = 0              # epochs so far: another object of the class is built in epoch 0 again
        self.fault = None
        self.is_refused = False     # the fault counts in whatever mode it came (refuse)
        self.failed = None          # the last operator or launch that raised an exception
        self.by_storage = {}
        self.init_rows = []         # rows from import and construction: every tape starts with them
        self.rows = []
        self.host_events = []       # what the host waited for in this forward: whatever is issued later comes after it
        self.caught_up = {}         # by stream: how many of those it waits for already
        self.order = []             # buffers of the current tape by number
        self.made = []              # what this forward computed of constants: (line, bytes) of each operator
        self.values = tracer_value.Values()
        self.pinned_memory = {}     # address of a storage object -> storage
        self.in_flight = []         # (stream, pinned tensor, what it held, its version, line) of copies unwaited for
        self.memory = tracer_memory.Memory(self)
        self.empty = None           # the first launch of a grid without programs: (line, kernel, grid)
        self.modes = []             # [name, tape, ...] of modes in which forward does other work (tracer_elsewhere.py)

    # ---- faults ----

    def fail(self, code, text):
        fault = Fault(code, text)
        if self.fault is None:
            self.fault = (fault, candidate_line())
        raise fault

    def refuse(self, text):
        """A fault in whatever mode forward is called."""
        self.is_refused = True
        self.fail("unsupported", text)

    # ---- buffers ----

    def buffer_of(self, inner, kind="temp"):
        """The buffer of an inner tensor's storage; new storages become new buffers. Returns
        (buffer, is_new)."""
        storage = inner.untyped_storage()
        key = storage._cdata
        buf = self.by_storage.get(key)
        if buf is not None:
            return buf, False
        if storage.nbytes() > BUFFER_BYTES_MAX:
            self.fail("too-large", f"a tensor of {storage.nbytes()} bytes; one buffer may have {BUFFER_BYTES_MAX}")
        buf = Buffer(storage, self.epoch, kind)
        self.by_storage[key] = buf
        if self.epoch and kind == "temp":
            self.memory.made(buf)
        return buf, True

    def freeze(self, buf):
        """Known -> unknown. What nobody wrote is not a constant: it stays uninitialised, or a
        fill."""
        if buf.origin is None and buf.kind == "temp":
            buf.kind = "const"
        if buf.kind == "const":
            buf.cpu = buf.storage
        self.move(buf, torch.empty(buf.bytes, dtype=torch.uint8, device="meta"))

    def is_plain_fill(self, buf):
        """A buffer that is one value so far, small, and not on the tape yet: as good as a known one
        (masks are made from torch.ones)."""
        if buf.known:
            return True
        return type(buf.origin) is tuple and buf.number_epoch != self.epoch and buf.bytes <= FOLD_BYTES_MAX

    def to_known(self, buf):
        if not buf.known:
            _, dtype, value = buf.origin
            self.move(buf, torch.full((buf.bytes // dtype.itemsize,), value, dtype=dtype, device="cpu"))

    def move(self, buf, base):
        """Gives a buffer another storage."""
        buf.past.append(buf.storage)
        buf.storage = base.untyped_storage()
        self.by_storage[buf.storage._cdata] = buf

    def number(self, buf, covered=False):
        """The buffer's number in the current tape. `covered`: the row in hand writes all of it, so
        that what was in it does not matter."""
        if buf.number_epoch == self.epoch:
            return buf.number
        if len(self.order) >= BUFFERS_MAX:
            self.fail("too-large", f"more than {BUFFERS_MAX} buffers")
        buf.number = len(self.order)
        buf.number_epoch = self.epoch
        self.order.append(buf)
        if buf.known:
            self.freeze(buf)
        if type(buf.origin) is tuple and buf.bytes and not (covered or self.is_stale(buf)):
            _, dtype, value = buf.origin
            count = buf.bytes // dtype.itemsize
            self.add_row(fill_row((buf, 0, dtype, (count,), (1,)), value, dtype))
            if self.epoch == 0:
                buf.origin = None   # the row stands in init_rows, which every tape repeats
        return buf.number

    def buffer_at(self, address):
        """(buffer, offset) of a synthetic address, or None."""
        number = (address >> ADDRESS_SHIFT) - 1
        return (self.order[number], address & ((1 << ADDRESS_SHIFT) - 1)) if 0 <= number < len(self.order) else None

    def read(self, buf):
        buf.read_epoch = self.epoch

    def written(self, buf, by_movement=False):
        """What was made before the first forward, and every constant, starts each forward as it was
        made; as long as that is what really happens: no launch or operator may write it, and
        movement does so only before the forward reads it, the same way each time."""
        buf.written_epoch = self.epoch
        if self.epoch > 0 and (buf.epoch == 0 or buf.kind == "const"):
            if not by_movement or buf.read_epoch == self.epoch:
                buf.stale_epoch = buf.stale_epoch or self.epoch
        else:
            buf.origin = None

    def constant_made(self, moved):
        """An operator on constants: its result is known, but a GPU computes it in each forward."""
        if not self.epoch or not moved:
            return
        if len(self.made) >= MADE_MAX:
            self.fail("too-large", f"more than {MADE_MAX} operators on constants in forward")
        self.made.append((candidate_line(), min(moved, MADE_BYTES_MAX)))

    def is_stale(self, buf):
        return 0 < buf.stale_epoch < self.epoch

    # ---- memory of the host's that is pinned ----

    def pin(self, t):
        storage = t.untyped_storage()
        self.pinned_memory[storage._cdata] = storage

    def is_pinned(self, t):
        return t.layout is torch.strided and t.untyped_storage()._cdata in self.pinned_memory

    def copied_later(self, t):
        """A copy of pinned memory is queued, and reads when the GPU comes to it."""
        if self.epoch and not hasattr(t, "_buffer") and self.is_pinned(t):
            with torch._C._DisableTorchDispatch():
                self.in_flight.append((tracer_cuda.CURRENT[0], t, t.clone(), t._version, candidate_line()))

    def landed(self, stream):
        """The host has waited for a stream (None: for all)."""
        self.check_flights()
        self.in_flight = [f for f in self.in_flight if stream is not None and f[0] != stream]

    def check_flights(self):
        if not self.in_flight:
            return
        with torch._C._DisableTorchDispatch():
            for _, now, then, version, line in self.in_flight:
                if now._version != version or now.numpy().tobytes() != then.numpy().tobytes():
                    self.fail("unsupported",
                              f"host code writes into pinned memory that a copy (line {line}) may not have read yet: "
                              "wait for its stream, or use other memory")

    # ---- rows ----

    def add_row(self, row):
        rows = self.rows if self.epoch else self.init_rows
        if len(rows) >= ROWS_MAX:
            self.fail("too-large", f"more than {ROWS_MAX} rows")
        row["line"] = candidate_line()
        row["stream"] = tracer_cuda.CURRENT[0] if self.epoch else tracer_cuda.CALLER[0]
        self.catch_up(row["stream"])
        self.memory.row(row["stream"], [view[0] for view in views_of(row)], row["line"])
        rows.append(row)

    # ---- order between streams ----

    # Work of import and construction is done before the first forward: it has one stream.

    def record_event(self, event, stream):
        if self.epoch:
            self.add_order({"op": "record", "event": event, "stream": stream})
            event.recorded = (self, self.epoch)
            self.memory.record(event, stream)
            event.flights = [f for f in self.in_flight if f[0] == stream]

    def wait_event(self, event, stream):
        """Waiting for what was never recorded, or in an earlier forward, orders nothing."""
        if self.epoch and getattr(event, "recorded", None) == (self, self.epoch):
            self.catch_up(stream)
            self.memory.wait(event, stream)
            self.add_order({"op": "wait", "event": event, "stream": stream})

    def add_order(self, row):
        if len(self.rows) >= ROWS_MAX:
            self.fail("too-large", f"more than {ROWS_MAX} rows")
        row["line"] = candidate_line()
        self.rows.append(row)

    def synchronize(self, streams):
        """The host waits for all that was given to these streams (None: to any) so far."""
        for stream in (None,) if streams is None else streams:
            self.landed(stream)
        self.memory.host_waits(streams)
        if streams is None:
            streams = list(dict.fromkeys(row["stream"] for row in self.rows))
        for stream in streams if self.epoch else ():
            event = tracer_cuda.Event()
            self.record_event(event, stream)
            self.host_events.append(event)

    def wait_on_host(self, event):
        if self.epoch and getattr(event, "recorded", None) == (self, self.epoch):
            self.host_events.append(event)
            self.memory.host_knows(event)
            self.check_flights()
            self.in_flight = [f for f in self.in_flight if not any(f is g for g in event.flights)]

    def catch_up(self, stream):
        seen = self.caught_up.get(stream, 0)
        if self.epoch and seen < len(self.host_events):
            self.caught_up[stream] = len(self.host_events)
            for event in self.host_events[seen:]:
                self.memory.wait(event, stream)
                self.add_order({"op": "wait", "event": event, "stream": stream})

    def fill(self, view, value, dtype):
        if numel(view):
            self.number(view[0], covers(view))
            self.add_row(fill_row(view, value, dtype))
            self.written(view[0], True)

    def copy(self, dst, src):
        if numel(dst):
            self.number(src[0])
            self.number(dst[0], covers(dst) and dst[0] is not src[0])
            self.add_row({"op": "copy", "dst": dst, "src": src})
            self.read(src[0])
            self.written(dst[0], True)

    def launch_nothing(self, kernel, grid):
        """A launch of no program is no row; a verdict that finds no launch
        says that there was one."""
        self.empty = self.empty or [candidate_line(), kernel.name[:80], *grid]

    def launch(self, kernel, grid, args, has_allocator=False):
        index = 0      # into the IR's arguments
        for arg in args:
            buf = buffer_of_arg(arg)
            if buf is not None:
                self.number(buf)
                self.read(buf)
                if kernel.may_write(index):
                    self.written(buf)
            if "value" in arg:
                self.number(arg["value"][0])
                self.read(arg["value"][0])
            index += 1 + 2 * len(arg["descriptor"][0][3]) if "descriptor" in arg else 1
        self.add_row({"op": "launch", "kernel": kernel, "grid": list(grid), "args": args, "allocator": has_allocator})

    def library(self, name, reads, writes, args):
        for view in reads:
            self.number(view[0])
            self.read(view[0])
        for view in writes:
            self.number(view[0])
            self.written(view[0])
        self.add_row({"op": "library", "name": name, "reads": reads, "writes": writes, "args": args})

    # ---- one tape per forward ----

    def begin(self, inputs):
        """Starts the next forward. `inputs` are buffers: they take the first numbers, used or
        not."""
        self.memory.begin(self.rows if self.epoch else (), tracer_cuda.CALLER[0])
        self.epoch = self.calls = self.calls + 1
        self.rows = [dict(row, stream=tracer_cuda.CALLER[0]) for row in self.init_rows]
        self.host_events = []
        self.caught_up = {}
        self.order = []
        self.made = []
        self.in_flight = []
        self.values.begin()
        for buf in inputs:
            self.number(buf)
        for row in self.init_rows:
            for view in views_of(row):
                self.number(view[0])


def views_of(row):
    kind = row["op"]
    if kind == "fill":
        return [row["dst"]]
    if kind == "copy":
        return [row["src"], row["dst"]]
    if kind == "library":
        return row["reads"] + row["writes"]
    if kind == "launch":
        return [(buffer_of_arg(arg),) for arg in row["args"] if buffer_of_arg(arg) is not None]
    return []


def buffer_of_arg(arg):
    return arg["descriptor"][0][0] if "descriptor" in arg else arg.get("buffer")


def covers(view):
    """Whether a written view is its whole buffer."""
    return numel(view) * view[2].itemsize == view[0].bytes


def numel(view):
    return math.prod(view[3])


def fill_row(dst, value, dtype):
    if dtype.is_floating_point:
        value = float(value)
    elif dtype is torch.bool:
        value = int(bool(value))
    else:
        value = int(value)
    return {"op": "fill", "dst": dst, "value": value}


# ---- text ----

def number_text(value):
    """JSON has no NaN and no infinity: they are strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value


def view_json(view):
    buf, offset, dtype, shape, stride = view
    name = DTYPE_NAMES.get(dtype)
    if name is None:
        raise Fault("unsupported", f"tensors of type {dtype} are not supported")
    return {"buffer": buf.number, "offset": offset, "dtype": name, "shape": list(shape), "stride": list(stride)}


def row_json(row, kernels):
    out = {"op": row["op"], "line": row["line"]}
    kind = row["op"]
    if row["stream"]:
        out["stream"] = row["stream"]
    if kind == "launch":
        out.update(kernel=kernels.setdefault(row["kernel"], len(kernels)), grid=row["grid"],
                   args=[arg_json(arg) for arg in row["args"]])
        if row["allocator"]:
            out["allocator"] = True
    elif kind == "fill":
        out.update(dst=view_json(row["dst"]), value=number_text(row["value"]))
    elif kind == "copy":
        out.update(dst=view_json(row["dst"]), src=view_json(row["src"]))
    elif kind in ("record", "wait"):
        out["event"] = row["event"]
    else:
        out.update(name=row["name"], reads=[view_json(v) for v in row["reads"]],
                   writes=[view_json(v) for v in row["writes"]], args=row["args"])
    return out


def ordered_rows(rows):
    """The rows with their streams and events as numbers, by first use. A wait for an event of the
    same stream says nothing, nor does a record that no other stream waits for; both are left out,
    so that a tape of one stream has neither."""
    # Which record each wait is for; a wait within one stream is dropped.
    last, needed, kept = {}, set(), []
    callers = tracer_cuda.CALLER[0]
    for i, row in enumerate(rows):
        if row["op"] == "record":
            last[row["event"]] = i
        elif row["op"] == "wait":
            of = last.get(row["event"])
            if of is None or rows[of]["stream"] == row["stream"]:
                continue
            needed.add(of)
            row = dict(row, event=of)
        kept.append((i, row))
    # Then the rows in order, with numbers; a record that nobody waits for is dropped.
    streams, events, out = {callers: 0}, {}, []
    for i, row in kept:
        if row["op"] == "record" and i not in needed:
            continue
        row = dict(row, stream=streams.setdefault(row["stream"], len(streams)))
        if row["op"] == "record":
            row["event"] = events.setdefault(i, len(events))
        elif row["op"] == "wait":
            row["event"] = events[row["event"]]
        out.append(row)
    if len(streams) > STREAMS_MAX or len(events) > EVENTS_MAX:
        raise Fault("too-large",
                    f"{len(streams)} streams and {len(events)} events; a tape may have {STREAMS_MAX} and {EVENTS_MAX}")
    return out


def descriptor_json(view, block, padding):
    return {"descriptor": {"view": view_json(view), "block": list(block), "padding": padding}}


def arg_json(arg):
    if "descriptor" in arg:
        return descriptor_json(*arg["descriptor"])
    if "buffer" in arg:
        return {"buffer": arg["buffer"].number, "offset": arg["offset"]}
    if "value" in arg:
        buf, offset, dtype = arg["value"]
        return {"value": {"buffer": buf.number, "offset": offset, "dtype": DTYPE_NAMES[dtype]}}
    if "float" in arg:
        return {"float": number_text(arg["float"])}
    return arg


def buffer_json(rec, buf):
    if buf.kind == "const" and buf.name is None and rec.is_stale(buf):
        return {"kind": "temp", "bytes": buf.bytes}
    out = {"kind": buf.kind, "bytes": buf.bytes}
    if buf.kind == "input":
        out["input"] = buf.input
    if buf.name is not None:
        out["name"] = buf.name
    return out


def const_bytes(buf):
    flat = torch.empty(0, dtype=torch.uint8)
    flat.set_(buf.cpu, 0, (buf.bytes,), (1,))
    return flat.numpy().tobytes()


def tape_json(rec, outputs, is_tuple, form=None):
    """The tape without the contents of constants: what two forwards are compared by."""
    for view in outputs:
        rec.number(view[0])
    kernels = {}
    rows = [row_json(row, kernels) for row in ordered_rows(rec.rows)]
    if len(kernels) > KERNELS_MAX:
        rec.fail("too-large", f"{len(kernels)} kernels; a tape may have {KERNELS_MAX}")
    return {
        **({} if form is None else {"form": form}),
        "version": 2,
        "buffers": [buffer_json(rec, b) for b in rec.order],
        "kernels": [k.tape_entry() for k in kernels],
        "rows": rows,
        "outputs": [view_json(v) for v in outputs],
        "tuple": is_tuple,
    }


def add_made(tape, made):
    """Stands in for operators on constants: fills of as many bytes as they move, of memory that
    nobody reads; of much of it one piece, as often as that takes. Whoever replays, prices or times
    the tape pays for them."""
    for line, size in made:
        times = max(size // MADE_PIECE_BYTES, 1)
        row = {"op": "fill", "line": line, "value": 0, "dst": {"buffer": len(tape["buffers"]), "offset": 0,
               "dtype": "uint8", "shape": [size // times], "stride": [1]}}
        tape["rows"] += [row] * times
        tape["buffers"].append({"kind": "temp", "bytes": size // times})


def add_constants(rec, tape):
    """Fills in the contents of constants."""
    total = sum(b.bytes for b in rec.order if b.kind == "const")
    if total > CONST_BYTES_MAX:
        rec.fail("too-large",
                 f"{total} bytes of constants (parameters that match none of the task's count as such); the limit is "
                 f"{CONST_BYTES_MAX}")
    for buf, entry in zip(rec.order, tape["buffers"]):
        if entry["kind"] == "const":
            entry["data"] = base64.b64encode(const_bytes(buf)).decode()
