"""tracer_plain: the second trace of a candidate, on plain tensors (docs/verifier.md, "The trace is a run").

The first trace shows the candidate's host code wrapper tensors without contents at synthetic addresses. Here everything that host code could tell a trace by is
another: tensors are exactly torch.Tensor, in ordinary memory with random contents at ordinary addresses, clocks run elsewhere, modules, files and classes have
other names. What an operator means for the tape is decided by the same code (tracer_tensor.py): each plain tensor stands for a buffer, is turned into a
TraceTensor where an operator or a launch takes it, and what comes back is turned into a plain tensor again.
"""
import bisect
import ctypes
import datetime
import mmap
import os
import random
import resource
import sys
import time
import types

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import tracer_driver
import tracer_tensor
from tracer_tensor import CUDA, TraceTensor

PAGE = 4096
STEP, PLACES = 512, 256
DRAWN_PLACE = random.SystemRandom().randrange     # taken before any candidate's code runs
ALIEN_SECONDS = 8 * 366 * 86400 + 12345     # how far this process's clocks are from the first's: years, as a date is a clock too


def memory_at(count, place):
    """Bytes at an address that is a multiple of STEP, as a GPU's allocator gives them; `place` is the address's next bits."""
    span = STEP * PLACES
    room = mmap.mmap(-1, count + span)     # its pages are there when they are written to: few are
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return torch.frombuffer(room, dtype=torch.uint8, count=count, offset=(STEP * place - start) % span)


class Shell:
    """The plain tensors of one trace, and the buffers they stand for."""

    def __init__(self):
        self.by_storage = {}      # address of a storage object -> (buffer, storage)
        self.plain = {}           # id of a buffer -> storage
        self.starts = []          # addresses of the memory, sorted, with their buffers
        self.place = DRAWN_PLACE(PLACES)

    def turn(self):
        """New inputs follow: every bit of an address beyond its alignment is another than at the last ones, so that what host code makes of such a bit
        differs from call to call."""
        self.place ^= PLACES - 1

    def storage_of(self, buf):
        storage = self.plain.get(id(buf))
        if storage is None:
            data = memory_at(max(buf.bytes, 1), self.place)
            for start in (0, buf.bytes // 2, max(buf.bytes - PAGE, 0)):
                piece = data[start:start + PAGE]
                piece.copy_(torch.frombuffer(bytearray(random.Random(id(buf) ^ start).randbytes(piece.numel())), dtype=torch.uint8)) if piece.numel() else None
            storage = data.untyped_storage()
            self.plain[id(buf)] = storage
            self.by_storage[storage._cdata] = (buf, storage)
            bisect.insort(self.starts, (storage.data_ptr(), max(buf.bytes, 1), id(buf)))
        return storage

    def buffer_of(self, t):
        """The buffer of a plain tensor that stands for one, or None."""
        try:
            entry = self.by_storage.get(t.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):
            return None
        return entry and entry[0]

    def outer(self, t):
        """The plain tensor for a TraceTensor."""
        with _disable_current_modes():
            return torch.empty(0, dtype=t.dtype).set_(self.storage_of(t._buffer), t.storage_offset(), t.shape, t.stride())

    def trace_of(self, t):
        """The TraceTensor behind a plain tensor, or None for a tensor of the host's."""
        buf = self.buffer_of(t)
        if buf is None:
            return None
        with _disable_current_modes():
            storage = buf.storage
            inner = torch.empty(0, dtype=t.dtype, device=storage.device).set_(storage, TENSOR_OFFSET(t), t.shape, t.stride())
            return TraceTensor(inner, buf, tracer_tensor.TRACER)

    def buffer_at(self, address):
        """(buffer, offset) of an address inside the memory of a plain tensor, or None."""
        at = bisect.bisect_right(self.starts, (address, 1 << 62, 0)) - 1
        if at < 0:
            return None
        start, size, key = self.starts[at]
        if address > start + size:
            return None
        return self.by_storage[self.plain[key]._cdata][0], address - start

    # ---- values with tensors in them ----

    def inwards(self, value, back):
        if isinstance(value, torch.Tensor):
            t = self.trace_of(value)
            if t is None:
                return value
            back[id(t)] = (value, t)
            return t
        if type(value) in (list, tuple):
            return type(value)(self.inwards(v, back) for v in value)
        if type(value) is dict:
            return {k: self.inwards(v, back) for k, v in value.items()}
        return value

    def outwards(self, value, back):
        if isinstance(value, TraceTensor):
            known = back.get(id(value))
            return known[0] if known else self.outer(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.outwards(v, back) for v in value)
        return value


TENSOR_OFFSET = torch._C.TensorBase.storage_offset
SHELL = None


class PlainMode(TorchDispatchMode):
    """Every operator comes here first; those on tensors of the host's go on to the CPU."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in tracer_tensor.VIEWED_IN_PLACE:
            return tracer_tensor.view_in_place(func, args, kwargs or {})
        back = {}
        args, kwargs = SHELL.inwards(args, back), SHELL.inwards(kwargs or {}, back)
        return SHELL.outwards(tracer_tensor.TRACER.dispatch(func, args, kwargs), back)


# ---- what a tensor says of itself ----

def stands_for_cuda(t):
    return SHELL is not None and SHELL.buffer_of(t) is not None


def read(t, how):
    return tracer_tensor.TRACER.read_value(SHELL.trace_of(t), how)


def install_tensor():
    tensor = torch.Tensor
    real_device = torch._C.TensorBase.device
    real = {name: getattr(tensor, name) for name in ("to", "cuda", "cpu", "numpy", "tolist", "__array__", "get_device", "__reduce_ex__", "type")}
    device = lambda self: CUDA if stands_for_cuda(self) else real_device.__get__(self)

    def to(self, *args, **kwargs):
        if args and isinstance(args[0], torch.Tensor):
            args = (device(args[0]), args[0].dtype, *args[1:])
        if not stands_for_cuda(self):
            return real["to"](self, *args, **kwargs)
        copy = kwargs.pop("copy", False)
        where, dtype, _, memory_format = torch._C._nn._parse_to(*[a for a in args if type(a) is not bool], **kwargs)
        if where is not None and where.type == "meta":
            return torch.empty_strided(self.shape, self.stride(), dtype=dtype or self.dtype, device="meta")
        if where is not None and where.type != "cuda":
            return read(self, "moving a tensor to the CPU (.cpu(), .to('cpu'))").to(dtype or self.dtype)
        options = {} if memory_format is None else {"memory_format": memory_format}
        return real["to"](self, dtype or self.dtype, copy=copy, **options)

    tensor.device = property(device)
    tensor.is_cuda = property(lambda self: device(self).type == "cuda")
    tensor.is_cpu = property(lambda self: device(self).type == "cpu")
    tensor.get_device = lambda self: 0 if stands_for_cuda(self) else real["get_device"](self)
    tensor.to = to
    tensor.cuda = lambda self, *args, **kwargs: self if stands_for_cuda(self) else real["to"](self, "cuda")
    tensor.cpu = lambda self, *args, **kwargs: to(self, "cpu") if stands_for_cuda(self) else self
    tensor.numpy = lambda self, *a, **k: read(self, "numpy()").numpy(*a, **k) if stands_for_cuda(self) else real["numpy"](self, *a, **k)
    tensor.tolist = lambda self: read(self, "tolist()").tolist() if stands_for_cuda(self) else real["tolist"](self)
    tensor.__array__ = lambda self, *a, **k: read(self, "numpy conversion").numpy() if stands_for_cuda(self) else real["__array__"](self, *a, **k)

    def type_of(self, dtype=None, *args, **kwargs):
        text = real["type"](self, dtype, *args, **kwargs)
        return text.replace("torch.", "torch.cuda.", 1) if dtype is None and stands_for_cuda(self) else text
    tensor.type = type_of


# ---- what else a trace could be told by ----

class Clock:
    """A clock far from the machine's that goes on by a second at each look."""

    def __init__(self, real, unit):
        self.value, self.unit = real() + ALIEN_SECONDS * unit, unit

    def __call__(self):
        self.value += self.unit
        return self.value


def install_clocks():
    """In both traces time is not the machine's; here it is another than in the first."""
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        setattr(time, name, Clock(getattr(time, name), 1))
    for name in ("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns"):
        setattr(time, name, Clock(getattr(time, name), 10**9))

    class LaterDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls):
            return datetime.datetime.utcfromtimestamp(time.time())
    LaterDatetime.__name__ = LaterDatetime.__qualname__ = "datetime"
    datetime.datetime = LaterDatetime

    class LaterDate(datetime.date):
        @classmethod
        def today(cls):
            return datetime.date.fromtimestamp(time.time())
    LaterDate.__name__ = LaterDate.__qualname__ = "date"
    datetime.date = LaterDate


HIDDEN = []    # what own_names says, asked once in the zygote: a look at each module's name touches a thousand pages that a fork shares


def own_names():
    """The modules that no ordinary process has."""
    return [name for name in sys.modules if name.startswith(("tracer", "ttir_compile", "zygote", "wire"))]


def install_names():
    """Names by which the tracing modules, its process and its classes could be known."""
    for name in HIDDEN or own_names():
        KEPT.append(sys.modules.pop(name))
    sys.path[:] = [p for p in sys.path if not p.endswith("worker")]
    sys.argv[:] = ["bench.py"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(HOME="/root", USER="root", LOGNAME="root", CUDA_VISIBLE_DEVICES="0", LANG="C.UTF-8")
    os.environ.pop("TRITON_BACKENDS_IN_TREE", None)
    for cls, name, module in ((tracer_driver.Driver, "CudaDriver", "triton.backends.nvidia.driver"), (tracer_driver.TracedKernel, "CompiledKernel", "triton.compiler.compiler")):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = module
    tracer_driver.ASM_MORE = dict.fromkeys(("ttgir", "llir", "ptx", "cubin"), "")
    torch.cuda.memory_allocated = torch.cuda.max_memory_allocated = torch.cuda.memory_reserved = torch.cuda.max_memory_reserved = lambda *args, **kwargs: 1 << 22


def install_process():
    """What an ordinary process says of itself and its machine, and a sandboxed one does not."""
    sys.orig_argv[:] = ["python3", "bench.py"]
    os.getpid, os.getppid = lambda: 48211, lambda: 48190
    os.cpu_count = lambda: 192
    os.getcwd = lambda: "/root/bench"
    os.uname = lambda named=os.uname_result: named(("Linux", "gpu-node", "5.15.0", "#1 SMP", "x86_64"))
    os.sched_getaffinity = lambda pid: set(range(192))
    torch.get_num_threads = lambda: 96
    many = {resource.RLIMIT_NOFILE: 1 << 20, resource.RLIMIT_NPROC: 1 << 18}
    resource.getrlimit = lambda which: (many.get(which, resource.RLIM_INFINITY),) * 2
    sys.addaudithook(watch_frames)


def watch_frames(event, args):
    """Host code that looks at its callers can tell who calls it; nothing of a module needs that."""
    if event != "sys._getframe" and (event != "object.__getattr__" or args[1] not in FRAME_NAMES):
        return
    if watch_frames.is_busy or tracer_driver.RECORDER is None or not tracer_driver.RECORDER.epoch:
        return
    watch_frames.is_busy = True
    try:
        caller = watch_frames.frame_of(1)
        names = [f.f_code.co_filename for f in (caller, caller.f_back) if f is not None]
        if names[0] == CANDIDATE_FILE or CANDIDATE_FILE in names and names[0].endswith(("inspect.py", "traceback.py")):
            tracer_driver.RECORDER.fail("unsupported", "forward looks at the frames of its callers")
    finally:
        watch_frames.is_busy = False


watch_frames.is_busy, watch_frames.frame_of = False, sys._getframe
FRAME_NAMES = ("f_code", "tb_frame", "gi_frame", "cr_frame", "ag_frame")
CANDIDATE_FILE = "candidate.py"
KEPT = []      # modules that sys.modules no longer names


def install(seed):
    """In the job's process, before anything of the candidate's is there."""
    global SHELL
    SHELL = Shell()
    tracer_driver.SHELL = SHELL
    random.seed(seed)
    install_tensor()
    install_clocks()
    install_names()
    install_process()
    return SHELL
