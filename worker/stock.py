"""A task at its own sizes, where these are too large for the host: the reference on a GPU, beside
the candidate's kernels, in memory on the GPU that both processes see.

Values are judged at smaller sizes by the oracle and the vm; what goes wrong only at the task's own
(an index of 32 bits, the last rows, a grid that ends too early, with values that no sample of
addresses shows) is found here. This process runs the task's reference and nothing of a candidate's:
it makes inputs on the GPU, computes what is expected in the reference's own precision and in fp64,
shares the inputs with the candidate's runner, which maps them for reading alone, and compares what
the runner left in the outputs' memory, by the rule of src/verify/compare.h; bounds are the
supervisor's to set. Inputs are written anew and expected values computed before the runner is
asked. docs/worker-protocol.md, "timer", has the messages.

With the device "cpu" memory is shared as memfds, for tests without a GPU."""
import contextlib
import ctypes
import math
import mmap
import os

import torch

import oracle_inputs
import oracle_state
import wire
from oracle_pack import Fault, dtype_name
from oracle_reference import DRAW_SEED, Draws, Reference, flatten_outputs, named_tensors, seed_all

ALIGN = 512
CHUNK = 1 << 25                   # elements that are looked at at once
SLICES_MAX = 64
OUT_OF_MEMORY = torch.cuda.OutOfMemoryError


# ---- memory that two processes see ----

class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("win32", ctypes.c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


PINNED, DESCRIPTOR, ON_DEVICE, READ_AND_WRITE, MINIMUM = 1, 1, 1, 3, 0


class Mapped:
    """An address as torch takes it."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "|u1", "data": (address, False), "version": 3}


class Shared:
    """`bytes` of memory on the device, as a tensor of bytes and a descriptor."""

    def __init__(self, count, device):
        self.make = self.on_gpu if device == "cuda" else self.on_host
        self.make(max(count, 1))

    def on_gpu(self, count):
        cuda, one = ctypes.CDLL("libcuda.so.1"), torch.zeros(1, device="cuda")     # torch makes the context
        here = Location(ON_DEVICE, one.get_device())
        prop = Properties(PINNED, DESCRIPTOR, here)
        step, handle, address, fd = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int()

        # The driver's own calls: torch has none that exports memory as a descriptor.
        def call(name, *args):
            result = getattr(cuda, name)(*args)
            if result == 2:
                raise OUT_OF_MEMORY(f"{count >> 20} MiB of shared memory")
            if result:
                raise Fault("task-unsupported", f"the driver's {name} answers {result}")

        # A piece of physical memory, addresses for it, both put together, and a descriptor by which
        # the runner maps the same piece.
        call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(prop), MINIMUM)
        self.bytes = -(-count // step.value) * step.value
        size = ctypes.c_size_t(self.bytes)
        call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0))
        call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), ctypes.c_uint64(0),
             ctypes.c_uint64(0))
        call("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        call("cuMemSetAccess", address, size, ctypes.byref(Access(here, READ_AND_WRITE)), ctypes.c_size_t(1))
        call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, DESCRIPTOR, ctypes.c_uint64(0))
        # How it is given back, and the same memory as a tensor.
        self.fd = fd.value
        self.undo = lambda: (call("cuMemUnmap", address, size), call("cuMemAddressFree", address, size),
                             call("cuMemRelease", handle))
        self.memory = torch.as_tensor(Mapped(address.value, self.bytes), device="cuda")

    def on_host(self, count):
        self.bytes, self.fd = -(-count // mmap.PAGESIZE) * mmap.PAGESIZE, os.memfd_create("shared", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.bytes)
        self.memory = torch.frombuffer(mmap.mmap(self.fd, self.bytes), dtype=torch.uint8)
        self.undo = lambda: None

    def close(self):
        """Nobody has a tensor of it any more."""
        self.memory = None
        self.undo()
        os.close(self.fd)

    def image(self, offset, t):
        """The tensor of t's form whose bytes lie at the offset."""
        if not t.numel():
            return torch.empty_like(t)
        size = extent(t) * t.element_size()
        return torch.as_strided(self.memory[offset:offset + size].view(t.dtype), t.shape, t.stride())


def extent(t):
    """Elements from a view's first to its last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride())) if t.numel() else 0


class Places:
    """Offsets one after another."""

    def __init__(self):
        self.used = 0

    def add(self, count):
        offset = self.used
        self.used += -(-count // ALIGN) * ALIGN
        return offset


# ---- the reference ----

class Stock:
    """The reference at the task's own sizes, on the device."""

    def __init__(self, job, device):
        self.device, self.job = device, job
        self.reference = Reference(job["source"], job["init_seed"])
        self.model = self.reference.model.to(device)
        if not job["training"]:
            self.model.eval()
        self.initial = {n: t.detach().clone() for n, t in named_tensors(self.model)}
        self.domains = self.given = self.outputs = None

    def stock_inputs(self, seed):
        """get_inputs() where the device makes the numbers; where the task has them made elsewhere,
        they are moved."""
        try:
            with torch.device(self.device):
                call = self.reference.inputs(seed)
        except (RuntimeError, TypeError, ValueError):
            call = self.reference.inputs(seed)
        return call.map(lambda t: t.to(self.device))

    def inputs(self, trial, positive, power):
        call = self.stock_inputs(trial["seed"])
        if trial["distribution"] == "stock":
            return call
        if self.domains is None:
            self.domains = [oracle_inputs.Domain(a, b)
                            for a, b in zip(call.tensors(), self.stock_inputs(trial["seed"] + 1).tensors())]
        generator = torch.Generator(device=self.device).manual_seed(trial["seed"] ^ 0x5DEECE66D)
        following = iter(self.domains)
        with torch.device(self.device):
            return call.map(lambda t: oracle_inputs.transform(t, next(following), trial["distribution"], generator,
                                                              positive, power))

    def rest(self):
        """Until the next candidate comes the GPU's room is others'."""
        for memory in (self.given, self.outputs):
            if memory is not None:
                memory.close()
        self.given = self.outputs = None
        release(self.device)

    def reset(self, trial):
        with torch.no_grad():
            for name, t in named_tensors(self.model):
                t.copy_(self.initial[name])
        if trial["parameters"] == "random":
            oracle_state.randomise_state(self.model, trial["seed"])

    def share_given(self, call):
        """What the runner starts with, in memory of both; (call on that memory, inputs, params)."""
        # Room for everything first: one piece of memory, kept from trial to trial.
        places, named = Places(), named_tensors(self.model)
        at = [places.add(extent(t) * t.element_size()) for t in call.tensors()]
        state_at = [places.add(t.numel() * t.element_size()) for _, t in named]
        if self.given is None:
            self.given = Shared(places.used, self.device)
        if places.used > self.given.bytes:
            raise Fault("task-unsupported", "get_inputs() returns other shapes under another seed")
        # Inputs are copied with their strides, parameters densely.
        following = iter(at)

        def placed(t):
            to = self.given.image(next(following), t)
            if 0 in to.stride() and t.numel() > 1:
                raise Fault("task-unsupported", "an input's elements overlap")
            return to.copy_(t.detach())
        shared = call.map(placed)
        inputs = [{"name": "", "offset": o, "bytes": extent(t) * t.element_size(), "changes": False}
                  for o, t in zip(at, call.tensors())]
        params = []
        for (name, t), o in zip(named, state_at):
            dense = t.detach().contiguous()
            self.given.image(o, dense).copy_(dense)
            params.append({"name": name, "offset": o, "bytes": t.numel() * t.element_size(), "changes": False})
        return shared, inputs, params

    def run(self, call):
        seed_all(DRAW_SEED)
        draws = Draws()
        with torch.no_grad(), draws:
            out = flatten_outputs(self.model(*call.args, **call.kwargs))
        if draws.kinds:
            raise Fault("task-unsupported", "the reference draws random numbers")
        return [t.detach().contiguous() for t in out]

    def changes(self, call, shared, inputs, params):
        """Marks what forward changed, and gives the model its state back."""
        for before, after, place in zip(shared.tensors(), call.tensors(), inputs):
            place["changes"] = not same(before, after)
        with torch.no_grad():
            for (name, t), place in zip(named_tensors(self.model), params):
                before = self.given.image(place["offset"], t.detach().contiguous())
                place["changes"] = not same(before, t.detach())
                t.copy_(before)

    def exact(self, shared, plain):
        """The reference in fp64; in slices of the batch where the whole does not fit. None: not to
        be had."""
        for slices in [1] + [2 ** k for k in range(1, 7)]:
            with contextlib.suppress(OUT_OF_MEMORY):
                return self.exact_in(slices, shared, plain)
            release(self.device)
        raise OUT_OF_MEMORY("the fp64 reference does not fit, not even in slices")

    def exact_in(self, slices, shared, plain):
        batch = plain[0].shape[0] if plain[0].dim() else 0
        if slices > 1 and (batch < slices or any(t.dim() == 0 or t.shape[0] != batch for t in plain)):
            raise Fault("task-unsupported", "the fp64 reference does not fit, and its outputs cannot be sliced")
        out = [torch.empty(t.shape, dtype=torch.float64, device=self.device) if slices > 1 and t.is_floating_point()
               else None for t in plain]
        for k in range(slices):
            rows = slice(batch * k // slices, batch * (k + 1) // slices)
            part = shared if slices == 1 else shared.map(
                lambda t: t[rows] if t.dim() and t.shape[0] == batch else t)
            found = forward_double(self.model, part)
            if found is None or len(found) != len(plain):
                return None
            for i, (f, p) in enumerate(zip(found, plain)):
                if f.shape != (p.shape if slices == 1 else p[rows].shape):
                    return None
                if slices == 1:
                    out[i] = f.double().contiguous() if p.is_floating_point() else None
                elif out[i] is not None:
                    out[i][rows].copy_(f)
        return out


def forward_double(model, call):
    """The outputs in fp64; None where the reference cannot run so. Memory that runs out is the
    caller's."""
    import copy
    for default in (torch.float64, torch.float32):
        torch.set_default_dtype(default)
        try:
            twin = copy.deepcopy(model).double()
            double = call.map(lambda t: t.detach().double() if t.is_floating_point() else t.detach().clone())
            with torch.no_grad():
                return flatten_outputs(twin(*double.args, **double.kwargs))
        except OUT_OF_MEMORY:
            raise
        except Exception:
            continue
        finally:
            torch.set_default_dtype(torch.float32)
    return None


def same(a, b):
    """Bit by bit, as NaN may be among them."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = kinds.get(a.element_size())
    return torch.equal(a, b) if kind is None else torch.equal(a.view(kind), b.view(kind))


def release(device):
    if device == "cuda":
        torch.cuda.empty_cache()


# ---- comparison: src/verify/compare.h on the device, a piece at a time ----

def pieces(rows, columns):
    """(rows, columns) of pieces of at most CHUNK elements."""
    if columns > CHUNK:
        for r in range(rows):
            for c in range(0, columns, CHUNK):
                yield slice(r, r + 1), slice(c, min(c + CHUNK, columns))
        return
    step = max(1, CHUNK // max(columns, 1))
    for r in range(0, rows, step):
        yield slice(r, min(r + step, rows)), slice(0, columns)


class Expected:
    """One output: f, the reference's own, r in fp64 (None: there is none), and what is usual
    where."""

    def __init__(self, plain, exact, rules):
        self.dtype, self.shape, n = plain.dtype, list(plain.shape), plain.numel()
        self.columns = (plain.shape[-1] if plain.dim() else 1) or 1
        self.rows = n // self.columns
        self.f = plain.reshape(self.rows, self.columns)
        self.r = exact.reshape(self.rows, self.columns) if exact is not None else None
        self.share, self.row_shares, self.column_shares = 1.0, None, None
        self.scale = self.error = 0.0
        self.nonfinite = 0
        if plain.is_floating_point() and n:
            self.measure()
            if self.r is not None:
                self.calibrate(rules)
        self.flips, self.last_place = rules["flips"], rules["last_place"]

    def right(self, at):
        return self.f[at].double() if self.r is None else self.r[at]

    def measure(self):
        total = torch.zeros((), dtype=torch.float64, device=self.f.device)
        finite = torch.zeros((), dtype=torch.int64, device=self.f.device)
        rows = torch.zeros(self.rows, dtype=torch.float64, device=self.f.device)
        columns = torch.zeros(self.columns, dtype=torch.float64, device=self.f.device)
        for at in pieces(self.rows, self.columns):
            size = self.right(at).abs()
            fine = torch.isfinite(size) & torch.isfinite(self.f[at])
            finite += fine.sum()
            total += torch.where(fine, size, 0.0).sum()
            size = size.nan_to_num(0.0, 0.0, 0.0)
            rows[at[0]] += size.sum(1)
            columns[at[1]] += size.sum(0)
        n, count = self.rows * self.columns, int(finite)
        self.nonfinite = n - count
        self.scale = float(total) / count if count else 0.0
        self.sums = rows, columns

    def calibrate(self, rules):
        """The smallest regions under which the reference itself is calm."""
        rows, columns = self.sums
        least = rules["averaged_min"]
        if not rules["coarse"] and self.scale > 0 and math.isfinite(self.scale):
            if self.columns >= least and self.rows > 1:
                self.row_shares = rows / self.columns / self.scale
            if self.rows >= least and self.columns > 1:
                self.column_shares = columns / self.rows / self.scale
        has_regions = self.row_shares is not None or self.column_shares is not None
        for share in rules["shares"]:
            if share < 1 and not has_regions:
                continue
            self.share, self.error = share, 0.0
            worst = torch.zeros((), dtype=torch.float64, device=self.f.device)
            for at in pieces(self.rows, self.columns):
                f = self.f[at].double()
                e = scaled(f, self.r[at], self.usual(at))
                fine = torch.isfinite(f) & torch.isfinite(self.r[at])
                worst = torch.maximum(worst, torch.where(fine, e, 0.0).max())
            self.error = float(worst)
            if self.error <= rules["calm"] * rules["floors"].get(dtype_name(self.f), 0.0):
                break

    def usual(self, at):
        """m of compare.h."""
        if self.share >= 1:
            return torch.tensor(self.scale, dtype=torch.float64, device=self.f.device)
        share = torch.ones((), dtype=torch.float64, device=self.f.device)
        if self.row_shares is not None:
            share = share * self.row_shares[at[0]][:, None]
        if self.column_shares is not None:
            share = share * self.column_shares[at[1]][None, :]
        return self.scale * share.clamp(self.share, 1.0)

    def describe(self):
        return {"dtype": dtype_name(self.f), "shape": self.shape, "error": number(self.error),
                "scale": number(self.scale), "nonfinite": self.nonfinite, "exact": self.r is not None}

    def compare(self, found, tolerance):
        """What compare_run says of the output that was found."""
        y = found.reshape(self.rows, self.columns)
        is_float = self.dtype.is_floating_point
        worst, wrong, first, absolute, nans, zeros = 0.0, 0, -1, 0.0, 0, 0
        # A piece at a time, so that no array in fp64 is as large as the output.
        for at in pieces(self.rows, self.columns):
            mine, plain = y[at], self.f[at]
            if is_float:
                error, apart = self.errors(mine.double(), at)
                bad = ~(error <= tolerance)
                worst = max(worst, float(error.max()))
                nans += int(torch.isnan(mine).sum())
            else:
                bad = mine != plain
                apart = (mine.double() - plain.double()).abs() if mine.dtype != torch.bool else bad.double()
            zeros += int((mine == 0).sum())
            absolute = max(absolute, float(apart.max()))
            # The first wrong element, in the order of memory, is what people are shown.
            count = int(bad.sum())
            if count and first < 0:
                place = int(bad.reshape(-1).to(torch.uint8).argmax())
                first = (at[0].start + place // mine.shape[1]) * self.columns + at[1].start + place % mine.shape[1]
            wrong += count
        if wrong and self.are_flips(y, tolerance, wrong):
            wrong, first, worst = 0, -1, min(worst, tolerance)
        # The sums over all pieces.
        told = {"mismatches": wrong, "error": number(worst if is_float else math.inf if wrong else 0.0),
                "absolute": number(absolute), "nans": nans, "zeros": zeros, "first": first}
        if first >= 0:
            row, column = divmod(first, self.columns)
            expected = self.f if self.r is None else self.r
            told["expected"], told["found"] = str(expected[row, column].item()), str(y[row, column].item())
        return told

    def are_flips(self, y, tolerance, count):
        """Whether a few elements are one step away in the half format whose values alone the
        reference has (compare.c)."""
        n = self.rows * self.columns
        if self.dtype != torch.float32 or self.r is None or count > max(1, n // self.flips):
            return False
        for narrow in (torch.float16, torch.bfloat16):
            fine, all_next = 0, True
            for at in pieces(self.rows, self.columns):
                r, mine = self.r[at], y[at].double()
                a, b = mine.to(narrow), r.to(narrow)
                if not bool((b.double() == r).all()):
                    break
                # Whole numbers are the format's too, and coarser steps do not use its last place.
                bits_a, bits_b = a.view(torch.int16).int() & 0xffff, b.view(torch.int16).int() & 0xffff
                fine += int(((bits_b & 1 == 1) & (r != r.floor())).sum())
                is_next = (a.double() == mine) & ((bits_a ^ bits_b) < 0x8000) & ((bits_a - bits_b).abs() == 1)
                all_next = all_next and bool((is_next | (self.errors(mine, at)[0] <= tolerance)).all())
            else:
                if all_next and fine and fine >= n // self.last_place:
                    return True
        return False

    def errors(self, y, at):
        """(scaled errors, distances). Where the reference is not finite, what is found must be of
        its kind."""
        r = self.right(at)
        apart = (y - r).abs()
        e = scaled(y, r, self.usual(at))
        if self.nonfinite:
            f = self.f[at].double()
            fine = torch.isfinite(r) & torch.isfinite(f)
            alike = torch.where(torch.isfinite(f), (kind(y) == kind(r)) & ~torch.isfinite(r), kind(y) == kind(f))
            known = torch.where(torch.isfinite(r), r, f)
            e = torch.where(fine, e, torch.where(alike, 0.0, scaled(y, known, self.usual(at))))
        return e.nan_to_num(math.inf, math.inf, math.inf), apart.nan_to_num(0.0, 0.0, 0.0)


def scaled(y, r, usual):
    apart = (y - r).abs()
    return torch.where(apart == 0, 0.0, apart / (r.abs() + usual))


def kind(v):
    return torch.isnan(v) * 3 + (v == math.inf) * 1 + (v == -math.inf) * 2


def number(v):
    return v if math.isfinite(v) else str(v)


# ---- one trial ----

def attempt(stock, trial, positive, power, rules):
    """(message, expected outputs); expected None where the reference is of no use there, and then
    message is why."""
    # The reference on this trial's inputs, in memory that the runner sees, and its twin in fp64.
    stock.reset(trial)
    call = stock.inputs(trial, positive, power)
    shared, inputs, params = stock.share_given(call)
    plain = stock.run(call)
    stock.changes(call, shared, inputs, params)
    del call
    exact = stock.exact(shared, plain) or [None] * len(plain)
    release(stock.device)
    expected = [Expected(p, e, rules) for p, e in zip(plain, exact)]
    # Where the reference is of no use another magnitude is to be tried.
    if trial["distribution"] != "stock":
        for e in expected:
            if e.nonfinite:
                return "the reference is not finite there", None
            if e.dtype.is_floating_point and e.error > rules["usable"].get(dtype_name(e.f), math.inf):
                return "the reference is not exact there", None
    # Room for what the candidate will write, filled with what no kernel writes by chance.
    places, outputs = Places(), []
    for e in expected:
        outputs.append(dict(e.describe(), offset=places.add(e.f.numel() * e.f.element_size())))
    if stock.outputs is None:
        stock.outputs = Shared(places.used, stock.device)
    stock.outputs.memory.fill_(0xff)
    if stock.device == "cuda":
        torch.cuda.synchronize()
    name = trial["distribution"] + (f" (2^{power:g})" if power > 0 else "") + ("-positive" if positive else "")
    return {"distribution": name, "inputs": inputs, "params": params, "outputs": outputs,
            "given_bytes": stock.given.bytes, "outputs_bytes": stock.outputs.bytes}, expected


def trial_run(stock, index, trial, rules, sock):
    why = ""
    for positive, power in oracle_inputs.attempts(trial["distribution"], False):
        message, expected = attempt(stock, trial, positive, power, rules)
        if expected is not None:
            break
        why = message
    if expected is None:
        wire.send(sock, {"trial": {"index": index, "distribution": trial["distribution"], "skipped": wire.words(why)}})
        return
    wire.send(sock, {"trial": dict(message, index=index)}, (stock.given.fd, stock.outputs.fd))
    question, _ = wire.recv(sock)
    if "stop" in question:
        raise Stopped
    told = []
    for e, place, tolerance in zip(expected, message["outputs"], question["compare"]):
        found = stock.outputs.image(place["offset"], e.f.reshape(e.shape))
        told.append(e.compare(found, tolerance) if e.f.numel() else {"mismatches": 0, "error": 0.0, "first": -1})
    wire.send(sock, {"compared": told})


class Stopped(Exception):
    """Nobody wants to know more of this candidate."""


def trials_run(stock, job, sock):
    for index, trial in enumerate(job["trials"]):
        try:
            trial_run(stock, index, trial, job["rules"], sock)
        except Stopped:
            return
        except OUT_OF_MEMORY as e:
            if index == 0:
                raise Fault("task-memory", f"the GPU has no room for the task at its own sizes: {e}")
            wire.send(sock, {"trial": {"index": index, "distribution": trial["distribution"],
                                       "skipped": "no room on the GPU"}})
        release(stock.device)


def serve(job, sock, device):
    """One candidate of the task after another, until nobody asks."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    stock = Stock(job, device)
    while True:
        trials_run(stock, job, sock)
        stock.rest()
        wire.send(sock, {"done": True})
        try:
            wire.recv(sock)
        except EOFError:
            return
        wire.send(sock, {"ready": True})
