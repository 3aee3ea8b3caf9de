"""tracer_plain: the second trace of a candidate, on plain tensors (docs/verifier.md, "The trace is
a run").

The first trace shows the candidate's host code wrapper tensors without contents at synthetic
addresses. Here everything that host code could tell a trace by is another: tensors are exactly
torch.Tensor, in ordinary memory with random contents at ordinary addresses, clocks run elsewhere,
modules, files and classes have other names. What an operator means for the tape is decided by the
same code (tracer_tensor.py): each plain tensor stands for a buffer, is turned into a TraceTensor
where an operator or a launch takes it, and what comes back is turned into a plain tensor again.
"""
import _asyncio
import _codecs
import _locale
import _thread
import asyncio
import bisect
import codecs
import collections
import ctypes
import datetime
import functools
import gc
import importlib.machinery
import locale
import mmap
import os
import posix
import random
import resource
import socket
import sys
import threading
import time
import types

import torch
import triton.testing
from torch.utils._python_dispatch import TorchDispatchMode

import tracer_cuda
import tracer_disguise
import tracer_drawn
import tracer_driver
import tracer_seal
import tracer_tensor
import tracer_value
from tracer_drawn import address_of, drawn, first_drawn, is_asked, stand_for, told
from tracer_tensor import CUDA, TraceTensor, without_modes

PAGE = 4096
SPREADS_MAX = 1000     # draws of one object: whoever draws until a weight is small has his end
STEP, PLACES = 512, 256
# taken before any candidate's code runs: what this process shows of itself is drawn, or a candidate
# would know it
DRAWN = random.SystemRandom()
DAY = 86400


def memory_at(count, place):
    """Bytes at an address that is a multiple of STEP, as a GPU's allocator gives them; `place` is
    the address's next bits."""
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
        self.place = DRAWN.randrange(PLACES)
        # of memory at its begin, in its middle and at its end, from a drawn place on
        self.contents = torch.frombuffer(bytearray(DRAWN.randbytes(2 * PAGE)), dtype=torch.uint8)
        self.calls = 0            # of forward
        self.head = 0             # bytes of a new input's memory that lie in front of it: it is a view then
        self.is_leaf = False      # inputs are parameters, as in training
        self.heads = {}           # id of a buffer -> its head
        # what random values have as distance from their middle, times what
        # was drawn under this seed
        self.spread, self.seed, self.spreads = 1, None, 0

    def turn(self):
        """New inputs follow: every bit of an address beyond its alignment is another than at the
        last ones, so that what host code makes of such a bit differs from call to call."""
        self.place ^= PLACES - 1

    def storage_of(self, buf):
        storage = self.plain.get(id(buf))
        if storage is None:
            head = self.heads[id(buf)] = self.head if buf.kind == "input" else 0
            data = memory_at(max(buf.bytes, 1) + 2 * head, self.place)
            for start in (0, buf.bytes // 2, max(buf.bytes - PAGE, 0)):
                piece, other = data[start:start + PAGE], DRAWN.randrange(PAGE)
                piece.copy_(self.contents[other:other + piece.numel()])
            storage = data.untyped_storage()
            self.plain[id(buf)] = storage
            self.by_storage[storage._cdata] = (buf, storage)
            bisect.insort(self.starts, (storage.data_ptr() + head, max(buf.bytes, 1), id(buf)))
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
        with without_modes():
            storage = self.storage_of(t._buffer)
            head = self.heads[id(t._buffer)] // t.dtype.itemsize
            plain = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset() + head, t.shape, t.stride())
            return plain.view_as(plain) if head else plain

    def trace_of(self, t):
        """The TraceTensor behind a plain tensor, or None for a tensor of the host's."""
        buf = self.buffer_of(t)
        if buf is None:
            return None
        with without_modes():
            storage = buf.storage
            offset = TENSOR_OFFSET(t) - self.heads[id(buf)] // t.dtype.itemsize
            inner = torch.empty(0, dtype=t.dtype, device=storage.device).set_(storage, offset, t.shape, t.stride())
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
# The middle of what torch draws, from a function's arguments behind the first; all weights of
# modules come from these.
MIDDLES = {"aten::normal_": lambda mean=0.0, std=1.0, **kwargs: mean,
           "aten::uniform_": lambda low=0.0, high=1.0, **kwargs: (kwargs.get("from", low) + kwargs.get("to", high)) / 2,
           "aten::randn": lambda *args, **kwargs: 0.0, "aten::randn_like": lambda *args, **kwargs: 0.0,
           "aten::rand": lambda *args, **kwargs: 0.5, "aten::rand_like": lambda *args, **kwargs: 0.5}
SHELL = None


class PlainMode(TorchDispatchMode):
    """Every operator comes here first; those on tensors of the host's go on to the CPU."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in tracer_tensor.VIEWED_IN_PLACE:
            return tracer_tensor.view_in_place(func, args, kwargs or {})
        # Elsewhere torch itself has taken these apart before they come here.
        if torch.is_inference_mode_enabled() and func._can_decompose():
            with self:
                return func.decompose(*args, **(kwargs or {}))
        back = {}
        args, kwargs = SHELL.inwards(args, back), SHELL.inwards(kwargs or {}, back)
        out = tracer_tensor.TRACER.dispatch(func, args, kwargs)
        if SHELL.spread != 1 and func._schema.name in MIDDLES and is_of_the_seed(out, kwargs.get("generator")):
            middle = MIDDLES[func._schema.name](*args[1:], **kwargs)
            out.sub_(middle).mul_(SHELL.spread).add_(middle)
            SHELL.spreads += 1
        return SHELL.outwards(out, back)


def is_of_the_seed(drawn, generator):
    """Whether an object's seed decides what was drawn. What comes from a generator of the
    constructor's own, or behind a seed of its own, are constants."""
    return (drawn.device.type == "cpu" and generator in (None, torch.default_generator)
            and torch.default_generator.initial_seed() == SHELL.seed and SHELL.spreads < SPREADS_MAX)


# ---- what a tensor says of itself ----

def stands_for_cuda(t):
    return SHELL is not None and SHELL.buffer_of(t) is not None


def read(t, how):
    return tracer_tensor.TRACER.read_value(SHELL.trace_of(t), how)


def install_tensor():
    tensor = torch.Tensor
    real_device = torch._C.TensorBase.device
    real = {name: getattr(tensor, name)
            for name in ("to", "cuda", "cpu", "numpy", "tolist", "__array__", "get_device", "__reduce_ex__", "type",
                         "data_ptr", "item")}
    device = lambda self: CUDA if stands_for_cuda(self) else real_device.__get__(self)

    # .to() and its kin: a tensor that stands for one of a GPU stays on it, and whoever moves it to
    # the CPU reads it.
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

    # What a tensor says of where it lies.
    tensor.device = property(device)
    tensor.is_cuda = property(lambda self: device(self).type == "cuda")
    tensor.is_cpu = property(lambda self: device(self).type == "cpu")
    tensor.get_device = lambda self: 0 if stands_for_cuda(self) else real["get_device"](self)
    tensor.to = to
    tensor.cuda = lambda self, *args, **kwargs: self if stands_for_cuda(self) else real["to"](self, "cuda")
    tensor.cpu = lambda self, *args, **kwargs: to(self, "cpu") if stands_for_cuda(self) else self

    def data_ptr(self):
        buf = SHELL.buffer_of(self)
        if buf is not None:
            tracer_driver.RECORDER.number(buf)      # as in the first trace, where the number is the address
        return real["data_ptr"](self)
    tensor.data_ptr = data_ptr
    # What reads values ends the trace, by name.
    tensor.numpy = lambda self, *a, **k: read(self, "numpy()").numpy(*a, **k) if stands_for_cuda(
        self) else real["numpy"](self, *a, **k)
    tensor.tolist = lambda self: read(self, "tolist()").tolist() if stands_for_cuda(self) else real["tolist"](self)
    tensor.__array__ = lambda self, *a, **k: read(self, "numpy conversion").numpy() if stands_for_cuda(
        self) else real["__array__"](self, *a, **k)

    def value(t):
        trace = SHELL.trace_of(t) if stands_for_cuda(t) else None
        number = None if trace is None else tracer_tensor.TRACER.value_number(trace)
        if number is None:
            return None
        refuse = lambda: tracer_driver.RECORDER.fail("data-dependent", tracer_value.DECIDES)
        return drawn(tracer_value.SOURCE, float, ("value", number), plain=tracer_value.value_of(number, refuse))
    tracer_drawn.PARAMETER[0] = value

    def item(self):
        found = value(self) if is_asked() else None
        return real["item"](self) if found is None else found
    tensor.item = item

    def type_of(self, dtype=None, *args, **kwargs):
        text = real["type"](self, dtype, *args, **kwargs)
        return text.replace("torch.", "torch.cuda.", 1) if dtype is None and stands_for_cuda(self) else text
    tensor.type = type_of
    # How often a tensor was written to is no more than a counter to host code.
    written, before = torch._C.TensorBase._version, DRAWN.randrange(1 << 10, 1 << 20)

    def version(self):
        count = written.__get__(self) + before
        return drawn("_version", int, ("version", id(self), count), low=0) if is_asked() else count
    tensor._version = property(version)
    install_addresses(tensor)


def install_addresses(tensor):
    """Of an address only its alignment is a fact of the task."""
    real, of_storage, item = tensor.data_ptr, torch.UntypedStorage.data_ptr, {
        name: getattr(tensor, name) for name in ("__getitem__", "__setitem__")}

    def data_ptr(self):
        address = real(self)
        base = of_storage(self.untyped_storage()) if is_asked() else None
        return address if base is None else address_of(address, base, STEP if stands_for_cuda(self) else 16)
    tensor.data_ptr = data_ptr
    torch.UntypedStorage.data_ptr = lambda self: address_of(of_storage(self), of_storage(
        self), STEP if self._cdata in SHELL.by_storage else 16) if is_asked() else of_storage(self)
    # Where an index is drawn torch says that it is no index, and not why.
    for name, get in item.items():
        setattr(tensor, name, lambda self, *args, get=get: get(self, *args) if first_drawn(
            args[:1]) is None else tracer_drawn.refuse(first_drawn(args)))


# ---- what else a trace could be told by ----

class Clock:
    """A clock far from the machine's. Host code may ask how long a launch took: in every second
    call of forward that is as long as a compiler takes, in the others next to nothing."""

    def __init__(self, real, later, unit):
        self.value, self.unit = real() + later * unit, unit

    def __call__(self):
        low, high = ((-7.3, 0.3) if not SHELL.calls else (-7.3, -6) if SHELL.calls % 2 else (-1, 0.3))
        step = 10 ** DRAWN.uniform(low, high) * self.unit
        self.value += int(step) + 1 if self.unit > 1 else step
        return self.value


def install_clocks():
    """In both traces time is not the machine's; here it is another than in the first, by years: a
    date is a clock too."""
    later = DRAWN.randrange(8 * 366 * DAY, 13 * 366 * DAY)
    # Every clock of time, in seconds and in nanoseconds, runs on from a drawn date.
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        for ending, unit in (("", 1), ("_ns", 10**9)):
            real = getattr(time, name + ending)
            clock = told(Clock(real, later, unit), f"time.{name}{ending}()", float if unit == 1 else int, low=1e-9)
            stand_for(real, clock)
            setattr(time, name + ending, clock)
    for ending, kind in (("", float), ("_ns", int)):
        now = {True: getattr(time, f"time{ending}"), False: getattr(time, f"monotonic{ending}")}
        setattr(time, f"clock_gettime{ending}", told(lambda clock, now=now: now[clock == time.CLOCK_REALTIME](),
                                                     f"time.clock_gettime{ending}()", kind, low=1e-9))
    # What takes the time of day where none is given.
    for name in ("gmtime", "localtime"):
        setattr(time, name, told(lambda seconds=None, real=getattr(time, name): real(
            time.time() if seconds is None else seconds), f"time.{name}()", time.struct_time, is_one=is_empty))
    for name in ("ctime", "asctime"):
        setattr(time, name, told(lambda at=None, real=getattr(time, name), now="time" if name == "ctime"
                else "localtime": real(getattr(time, now)() if at is None else at), f"time.{name}()", str,
                is_one=is_empty))
    time.strftime = told(lambda form, at=None, real=time.strftime: real(form, time.localtime() if at is None else at),
                         "time.strftime()", str, is_one=lambda args: len(args) < 2)

    # datetime's classes are of C, so theirs are replaced by classes of the same names.
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


def is_empty(args):
    return not args or args[0] is None


# what own_names says, asked once in the zygote: a look at each module's name touches a thousand
# pages that a fork shares
HIDDEN = []


def own_names():
    """The modules that no ordinary process has."""
    own = ("tracer", "ttir_compile", "zygote", "wire", "output_form")
    return [name for name in sys.modules if name.startswith(own)]


def word():
    return "".join(DRAWN.choices("abcdefghijklmnoprstuvw", k=DRAWN.randrange(3, 9)))


def replace(module, name, tell):
    """Puts `tell` in a function's place; it says of itself what that one says. A copy, since the
    seal has seen the functions of this file as they are."""
    real = getattr(module, name)
    tell = types.FunctionType(tell.__code__, tell.__globals__, name, tell.__defaults__, tell.__closure__)
    tell.__module__ = real.__module__
    tracer_cuda.shows(tell, real)
    tracer_disguise.STAND_INS.add(id(tell))
    stand_for(real, tell)
    setattr(module, name, tell)


def memory_stats(*args):
    """Which numbers there are is torch's to say; how large they are belongs to the process."""
    is_theirs = is_asked()
    return {name: drawn("torch.cuda.memory_stats()") if is_theirs else number
            for name, number in tracer_cuda.STATS.items()}


def mem_get_info(*args):
    """What is free belongs to the process, how much there is to the device."""
    total = tracer_cuda.PROPERTIES.total_memory
    return drawn("torch.cuda.mem_get_info()", low=0) if is_asked() else total - tracer_cuda.USED, total


# Variables that the zygote, the tracer and the libraries in them have set, and few others have.
OF_THE_ZYGOTE = ("TRITON_BACKENDS_IN_TREE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                 "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS")


def install_names():
    """Names by which the tracing modules, its process and its classes could be known."""
    for name in HIDDEN or own_names():
        KEPT.append(sys.modules.pop(name))
    sys.path[:] = [p for p in sys.path if not p.endswith("worker")]
    user = word()
    sys.argv[:] = [drawn("sys.argv", str, ("argv", 0))]
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(HOME=f"/home/{user}", USER=user, LOGNAME=user, CUDA_VISIBLE_DEVICES="0", LANG="C.UTF-8")
    for name in OF_THE_ZYGOTE:
        os.environ.pop(name, None)
    os.environ.__class__ = os.environb.__class__ = Environment
    kernel = tracer_driver.TracedKernel
    # What a compiler would say of a kernel belongs to its version and its card.
    tracer_driver.ASM_MORE = {name: drawn(f"a kernel's {name}", bytes if name == "cubin" else str, ("asm", name))
                              for name in ("ttgir", "llir", "ptx", "cubin")}
    kernel.n_regs, kernel.n_spills = (drawn(f"a kernel's {name}", int, (name, 0), low=low)
                                      for name, low in (("n_regs", 1), ("n_spills", 0)))
    kernel.hash = drawn("a kernel's hash", str, ("kernel", 0))
    tracer_driver.SHARED = drawn("a kernel's shared memory", int, ("shared", 0), low=0)
    used = DRAWN.randrange(1, 1 << 16) << 9
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        replace(torch.cuda, name, told(lambda *args, **kwargs: used, f"torch.cuda.{name}()", low=0))
    tracer_cuda.USED = DRAWN.randrange(1 << 28, 1 << 33)
    # how much is in use; what fails, or is a setting, is as it was
    tracer_cuda.STATS.update((name, used >> DRAWN.randrange(12)) for name in tracer_cuda.STATS if "." in name)
    replace(torch.cuda, "memory_stats", memory_stats)
    replace(torch.cuda, "mem_get_info", mem_get_info)
    torch.cuda.Event.elapsed_time = told(tracer_cuda.Event.elapsed_time, "an event's elapsed time", float,
                                         is_one=lambda events: all(e.is_timed for e in events), low=0)
    for name in ("do_bench", "do_bench_cudagraph"):
        replace(triton.testing, name, told(getattr(triton.testing, name), f"{name}()", float, low=1e-9))


MAPPINGS = {type(os.environ).__getitem__.__code__.co_filename, type(os.environ).get.__code__.co_filename}


class Environment(type(os.environ)):
    """The variables of the environment: whoever asks for one that nobody has set is told so, what
    others have set belongs to the process."""

    OWN = {}      # name -> what host code has written there

    def __getitem__(self, name):
        text = super().__getitem__(name)
        if name in self.OWN:
            return self.OWN[name]
        return drawn(f"the environment's {name}", type(text), ("environment", name)) if self.is_asked() else text

    def __setitem__(self, name, text):
        super().__setitem__(name, "drawn" if type(text) is tracer_drawn.Drawn else text)
        if self.is_asked():
            self.OWN[name] = text

    def __iter__(self):
        return self.refuse() if self.is_asked() else super().__iter__()

    def __len__(self):
        return self.refuse() if self.is_asked() else super().__len__()

    def __repr__(self):
        return self.refuse() if self.is_asked() else super().__repr__()

    def refuse(self):
        tracer_drawn.refused("host code lists the environment: what it does may not depend on that")

    @staticmethod
    def is_asked():
        """Through methods of a mapping, too."""
        frame = sys._getframe(2)
        while frame.f_code.co_filename in MAPPINGS:
            frame = frame.f_back
        return frame.f_code.co_filename in tracer_drawn.FILES


def install_process():
    """What an ordinary process says of itself and its machine, and a sandboxed one does not."""
    # Numbers, names and limits of the process and its machine, drawn for this trace.
    pid, cores, load = DRAWN.randrange(2500, 90000), DRAWN.randrange(5, 250), DRAWN.uniform(0.2, 90)
    group = pid - DRAWN.randrange(2)
    sys.orig_argv[:] = [drawn("sys.orig_argv", str, ("argv", i)) for i in range(2)]
    here, node = f"{os.environ['HOME']}/{word()}", word()
    answers = {
        "getpid": lambda: pid, "getppid": lambda: pid - 21, "getpgrp": lambda: group, "getpgid": lambda of: group,
        "getsid": lambda of: group, "cpu_count": lambda: cores, "nice": lambda by: by, "getcwd": lambda: here,
        "uname": lambda named=os.uname_result: named(("Linux", node, "5.15.0", "#1 SMP", "x86_64")),
        "sched_getaffinity": lambda of: set(range(cores)), "getloadavg": lambda: (load, load * 0.9, load * 0.8)}
    kinds = {"getcwd": str, "getcwdb": bytes, "uname": os.uname_result, "sched_getaffinity": set, "getloadavg": tuple,
             "getlogin": str, "getgroups": list, "getresuid": tuple, "getresgid": tuple, "times": os.times_result,
             "get_terminal_size": os.terminal_size}
    for name in (*answers, "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getlogin",
                 "getcwdb", "getpriority", "sysconf", "times", "get_terminal_size", "umask", "ctermid", "getrandom"):
        real = getattr(os, name)
        answer = told(answers.get(name, real), f"os.{name}()", kinds.get(name, int), is_kept=True)
        stand_for(real, answer)
        setattr(os, name, answer)
        setattr(posix, name, answer)
    for name in ("gethostname", "getfqdn"):
        answer = told(lambda *of: node, f"socket.{name}()", str, is_kept=True)
        stand_for(getattr(socket, name), answer)
        setattr(socket, name, answer)
    torch.get_num_threads = told(lambda: (cores + 1) // 2, "torch.get_num_threads()", is_kept=True, low=1)
    many = {resource.RLIMIT_NOFILE: 1 << 20, resource.RLIMIT_NPROC: 1 << 18}
    resource.getrlimit = lambda which: (many.get(which, resource.RLIM_INFINITY),) * 2
    resource.prlimit = lambda of, which, *limits: resource.getrlimit(which)
    gc.isenabled, gc.get_freeze_count = lambda: True, lambda: 0
    install_totals()
    # The worker runs isolated, an ordinary Python does not.
    flags = {name: getattr(sys.flags, name) for name in dir(sys.flags)
             if not name.startswith(("_", "n_")) and name not in ("count", "index")}
    flags.update(isolated=0, no_user_site=0, ignore_environment=0, dont_write_bytecode=0)
    sys.dont_write_bytecode = False
    sys.flags = collections.namedtuple("flags", flags)(**flags)
    # From here on what the sandbox would refuse is watched, and refuses the candidate.
    install_threads(pid)
    events_watch(watch, CANDIDATE_FILE.encode())
    for module in (os, posix):
        for name in REAL:
            setattr(module, name, watched(REAL[name], "files", is_readable))
    for module, name in ((os, "urandom"), (posix, "urandom"), (random, "_urandom")):
        setattr(module, name, watched(getattr(module, name), "chance"))
    for module, name in DESCRIPTORS:
        setattr(module, name, watched(getattr(module, name), "descriptors"))
    for module, name in REGISTRIES:
        setattr(module, name, watched(getattr(module, name), "what a library written in C remembers"))
    for name in ("gettrace", "getprofile"):
        setattr(sys, name, told(getattr(sys, name), f"sys.{name}()", None))
    torch.cuda.device_count = told_devices(DRAWN.randrange(2, 9))
    threading._start_new_thread = _thread.start_new_thread = watched(_thread.start_new_thread, "threads")


def told_devices(count):
    """How many there are belongs to the machine; forward's are on one."""
    def device_count():
        return count
    tracer_cuda.shows(device_count, torch.cuda.device_count)
    return device_count


def install_totals():
    """What an ordinary process has done by now, of which a traced one has done little."""
    asked = DRAWN.randrange(1 << 16)
    gc.get_count = told(gc.get_count, "gc.get_count()", tuple)
    gc.get_stats = told(gc.get_stats, "gc.get_stats()", list)
    gc.collect = told(gc.collect, "gc.collect()", low=0)
    sys.getallocatedblocks = told(sys.getallocatedblocks, "sys.getallocatedblocks()", low=1)
    sys.getrefcount = told(sys.getrefcount, "sys.getrefcount()", low=1)
    resource.getrlimit = told(resource.getrlimit, "resource.getrlimit()", tuple, is_kept=True)
    resource.getrusage = told(resource.getrusage, "resource.getrusage()", resource.struct_rusage)
    # A cache's own count of calls.
    cache = functools._lru_cache_wrapper
    table = gc.get_referents(cache.__dict__)[0]
    info = table["cache_info"]

    def cache_info(self):
        found = info(self)
        return found._replace(hits=drawn("a cache's hits", low=0) if is_asked() else found.hits + asked)
    table["cache_info"] = cache_info
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cache))


def install_threads(pid):
    """The one thread under other numbers."""
    main, ident = threading.main_thread(), threading.get_ident()
    other = ident ^ 0x3fff << 22
    main._native_id, main._ident = pid, other
    threading._active[other] = threading._active.pop(ident)
    for name, number in (("get_native_id", pid), ("get_ident", other)):
        answer = told(lambda number=number: number, f"threading.{name}()", is_kept=True, low=1)
        real = getattr(_thread, name)
        stand_for(real, answer)
        setattr(threading, name, answer)
        setattr(_thread, name, answer)
    for name in ("ident", "native_id"):
        real = getattr(threading.Thread, name)
        setattr(threading.Thread, name, property(lambda self, real=real, name=name: drawn(
            f"a thread's {name}", int, ("thread", id(self)), low=1) if is_asked() else real.fget(self)))


def install_chance(seed):
    """Generators that a process of its own would have seeded otherwise; what the job seeds itself
    comes later."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed + 1)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed((seed + 2) & 0xffffffff)
    tracer_drawn.watch_generators()


# ---- what the sandbox refuses ----

# Events of the interpreter (sys.addaudithook) by their first words, and what host code does there.
# Here it would be told by a refusal that it is traced, so whoever tries is refused, whatever comes
# of it.
EVENTS = {"open": "a file", "os.listdir": "a folder", "os.scandir": "a folder", "os.chdir": "a folder",
          "os.mkdir": "a folder", "os.remove": "a file", "os.rename": "a file", "os.link": "a file",
          "os.symlink": "a file", "os.truncate": "a file", "os.utime": "a file", "os.chmod": "a file",
          "subprocess.Popen": "other processes", "os.system": "other processes", "os.fork": "other processes",
          "os.forkpty": "other processes", "os.exec": "other processes", "os.posix_spawn": "other processes",
          "os.spawn": "other processes", "os.kill": "other processes", "os.killpg": "other processes",
          "_thread.start_new_thread": "threads", "socket.__new__": "the network", "socket.gethostbyname": "the network",
          "socket.getaddrinfo": "the network", "ctypes.dlopen": "the process's memory",
          "ctypes.dlsym": "the process's memory", "ctypes.string_at": "the process's memory",
          "ctypes.call_function": "the process's memory", "ctypes.cdata": "the process's memory",
          "fcntl.ioctl": "a device", "resource.setrlimit": "limits", "sys._current_frames": "the frames of its callers",
          "gc.get_objects": "the process's memory", "gc.get_referrers": "the process's memory"}
# What the kernel, or a library written in C, keeps for host code beside all objects of Python.
DESCRIPTORS = [(module, name) for module in (os, posix) for name in (
    "pipe", "pipe2", "eventfd", "eventfd_read", "eventfd_write", "memfd_create", "dup", "dup2", "lseek", "read",
    "readv", "pread", "openpty", "pidfd_open") if hasattr(module, name)]
REGISTRIES = [(module, name) for module, names in (
    (codecs, ("register", "register_error", "lookup_error")), (_codecs, ("register", "register_error", "lookup_error")),
    (locale, ("textdomain", "bindtextdomain", "bind_textdomain_codeset")),
    (_locale, ("textdomain", "bindtextdomain", "bind_textdomain_codeset")),
    (_asyncio, ("_set_running_loop",)), (asyncio.events, ("_set_running_loop",)), (asyncio, ("_set_running_loop",)))
    for name in names if hasattr(module, name)]
FOLDERS = (*(p for p in sys.path if p), os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)))
READABLE = (*FOLDERS, *map(os.path.realpath, FOLDERS))
HERE = os.path.dirname(os.path.abspath(__file__))
CANDIDATE_FILE = "candidate.py"
REAL = {name: getattr(posix, name) for name in ("stat", "lstat", "access", "statvfs", "readlink", "fstat", "isatty")}
LOOKS = ("open", "os.listdir", "os.scandir")      # at what libraries consist of whoever imports one looks
MACHINERY = "<frozen importlib"
LOADERS = (importlib.machinery.SourceFileLoader, importlib.machinery.SourcelessFileLoader)
# Events that make code, and which argument is the name of its file; of marshal.loads nobody can
# say.
MAKE_CODE = {"compile": 1, "code.__new__": 1, "marshal.loads": None}


def is_candidates_doing():
    """Whether the candidate's code is among the callers, however far, and no module that is being
    imported stands between: those read their own files. The names of files that this goes by are
    nobody's to give (is_foreign_code)."""
    inner, frame = None, watch.frame_of(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == CANDIDATE_FILE:
            return True
        if name.startswith(HERE) or name.startswith(MACHINERY) and (is_import(inner, frame) or is_cache(frame)):
            return False
        inner, frame = frame, frame.f_back
    return False


def is_import(inner, frame):
    """A library's module that the machinery of imports executes or, if it is one in C, makes. Its
    other functions are anybody's to call, with any path."""
    if inner is not None and inner.f_code.co_name == "<module>" and is_readable(inner.f_code.co_filename):
        return True
    behind = frame.f_back
    return (frame.f_code.co_name == "_call_with_frames_removed" and behind is not None
            and behind.f_code.co_filename.startswith(MACHINERY) and behind.f_code.co_name == "create_module")


def is_cache(frame):
    """A library's loader that writes what it has compiled beside the source, where nobody did so
    before; it goes on without where it may not."""
    behind = frame.f_back
    return (frame.f_code.co_name == "_cache_bytecode" and behind is not None
            and behind.f_code.co_filename.startswith(MACHINERY) and behind.f_code.co_name == "get_code"
            and type(behind.f_locals.get("self")) in LOADERS and is_readable(behind.f_locals.get("source_path")))


def is_foreign_code(event, args):
    """Code that would pass for a library's by the name of its file, made by another than the
    loaders of modules."""
    place = MAKE_CODE[event]
    name = args[place] if place is not None else "<frozen"
    name = os.fsdecode(name) if isinstance(name, (str, bytes)) else ""
    if not name.startswith(("/", "<frozen")):
        return False
    loader = watch.frame_of(2)
    while loader is not None and loader.f_code.co_filename.startswith(MACHINERY):
        if loader.f_code.co_name == "get_code" and type(loader.f_locals.get("self")) in LOADERS:
            return False
        loader = loader.f_back
    return True


def refuse(what):
    if tracer_driver.RECORDER is not None:
        tracer_driver.RECORDER.fail("unsupported", f"host code looks at {what}: what it does may not depend on that")


def is_readable(path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    path = os.fsdecode(path)
    return (os.path.basename(path) in (CANDIDATE_FILE, GLOBALS.get("__file__")) or path.startswith(READABLE)
            or any(p.startswith(f"{path}/") for p in READABLE))


def watched(real, what, is_fine=lambda first: False):
    def call(*args, **kwargs):
        first = args[0] if args else next(iter(kwargs.values()), 0)
        is_path = real is REAL["lstat"] and watch.frame_of(1).f_code.co_name == "_joinrealpath"      # links alone
        if not watch.is_busy and not is_path and not is_fine(first) and is_candidates_doing():
            refuse(f"{what} ({first})" if type(first) is str else what)
        return real(*args, **kwargs)
    return call


def watch(event, args):
    """Host code that looks at its callers, or at what the sandbox refuses, can tell who calls it;
    nothing of a module needs that."""
    what = EVENTS.get(event)
    if event in MAKE_CODE and is_foreign_code(event, args):
        what = "how code is told apart: it made some under the name of a library's file"
    is_frame = event == "sys._getframe" or event == "object.__getattr__" and (
        args[1] in FRAME_NAMES or args[1] == "__code__" and args[0].__globals__ is GLOBALS)
    if (event == "object.__getattr__" and args[1] in CODE_NAMES and id(args[0]) in tracer_disguise.STAND_INS
            and not watch.frame_of(1).f_code.co_name.startswith("_signature")):      # those are as elsewhere
        what = "how torch's and Triton's functions are made"
    if (event in ("os.putenv", "os.unsetenv") and tracer_seal.is_compilers(os.fsdecode(args[0]))
            and is_candidates_doing()):
        tracer_driver.refuse_changes("the environment")
    if what is None and not is_frame or watch.is_busy or event in LOOKS and is_readable(args[0]):
        return
    watch.is_busy = True
    try:
        if is_frame:
            watch_frames()
        elif is_candidates_doing():
            refuse(what)
    finally:
        watch.is_busy = False


def watch_frames():
    caller = watch.frame_of(2)
    behind = caller.f_back
    if behind is not None and behind.f_code.co_filename == tracer_drawn.CALL:
        behind = behind.f_back
    names = [f.f_code.co_filename for f in (caller, behind) if f is not None]
    readers = ("inspect.py", "traceback.py", "dis.py")
    if names[0] == CANDIDATE_FILE or CANDIDATE_FILE in names and names[0].endswith(readers):
        refuse("the frames of its callers, or its own code")


watch.is_busy, watch.frame_of = False, sys._getframe
events_watch = ctypes.PyDLL(None).events_watch    # sys.addaudithook, for what is worth a call (worker/events.c)
events_watch.argtypes = ctypes.py_object, ctypes.c_char_p
FRAME_NAMES = ("f_code", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "gi_code", "cr_code", "ag_code")
CODE_NAMES = ("__code__", "__defaults__", "__kwdefaults__")
GLOBALS = {}   # the candidate's
KEPT = []      # modules that sys.modules no longer names


def install(seed):
    """In the job's process, before anything of the candidate's is there."""
    global SHELL
    SHELL = Shell()
    tracer_driver.SHELL = SHELL
    install_tensor()
    install_clocks()
    install_names()
    install_chance(seed)
    install_process()
    return SHELL
