"""tracer_plain: the second trace of a candidate, on plain tensors (docs/verifier.md, "The trace is
a run").

The first trace shows the candidate's host code wrapper tensors without contents at synthetic
addresses. Here everything that host code could tell a trace by is another: tensors are exactly
torch.Tensor, in ordinary memory with random contents at ordinary addresses; clocks run elsewhere
(tracer_clocks.py), the process has other names and numbers (tracer_process.py), and what
the sandbox would refuse is watched (tracer_watch.py). What an operator means for the tape
is decided by the same code (tracer_tensor.py): each plain tensor stands for a buffer, is
turned into a TraceTensor where an operator or a launch takes it, and what comes back is
turned into a plain tensor again.
"""
import bisect
import ctypes
import functools
import gc
import logging
import mmap
import os
import sys
import types

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import tracer_asked
import tracer_chance
import tracer_clocks
import tracer_disguise
import tracer_drawn
import tracer_driver
import tracer_process
import tracer_rewrite
import tracer_tensor
import tracer_value
import tracer_watch
from tracer_chance import DRAWN
from tracer_drawn import LIVES, Life, address_of, drawn, first_drawn, is_asked
from tracer_operators import VIEWED_IN_PLACE
from tracer_tensor import TraceTensor, without_modes

CONTENTS = 512         # bytes at each of three places of a tensor: each page that is written to is one more to make
SPREADS_MAX = 1000     # draws of one object: whoever draws until a weight is small has his end
STEP, PLACES = 512, 256
# Operators that take an offset into a tensor's memory: its place among their arguments.
AT_OFFSETS = {"aten::as_strided": 3, "aten::as_strided_copy": 3, "aten::as_strided_scatter": 4}
PIECE = 4 << 20


class Memory:
    """Memory for plain tensors, in large pieces: the system is asked for few of them."""

    def __init__(self):
        self.room, self.start, self.end, self.at = None, 0, 0, 0    # addresses of a piece, and of what is free in it

    def tensor_at(self, count, place):
        """(tensor of bytes, the piece that it lies in, where in it) at an address that is a
        multiple of STEP, as a GPU's allocator gives them; `place` is the address's next bits."""
        span = STEP * PLACES
        if self.at + count + span + STEP > self.end:
            # Its pages are there when they are written to, and these few are small.
            self.room = mmap.mmap(-1, max(PIECE, count + span + STEP))
            self.room.madvise(mmap.MADV_NOHUGEPAGE)
            self.start = self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.room))
            self.end = self.start + len(self.room)
        address = self.at + (STEP * place - self.at) % span
        self.at = address + count + STEP      # where one tensor ends no other begins
        return (torch.frombuffer(self.room, dtype=torch.uint8, count=count, offset=address - self.start), self.room,
                address - self.start)


class Shell:
    """The plain tensors of one trace, and the buffers they stand for."""

    def __init__(self):
        self.by_storage = {}      # address of a storage object -> (buffer, storage)
        self.plain = {}           # id of a buffer -> storage
        self.starts = []          # addresses of the memory, sorted, with their buffers
        self.memory = Memory()
        self.place = DRAWN.randrange(PLACES)
        # of memory at its begin, in its middle and at its end, from a drawn place on
        self.contents = DRAWN.randbytes(2 * CONTENTS)
        self.calls = 0            # of forward
        self.head = 0             # bytes of a new input's memory that lie in front of it: it is a view then
        self.made_by = None       # what makes an input that wants a gradient, as in training
        self.flat = 0             # the same of a new parameter
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
            head = self.heads[id(buf)] = {"input": self.head, "param": self.flat}.get(buf.kind, 0)
            size = max(buf.bytes, 1) + 2 * head
            data, room, at = self.memory.tensor_at(size, self.place)
            drawn = DRAWN.getrandbits(64)
            for start in (0, buf.bytes // 2, max(buf.bytes - CONTENTS, 0)):
                count, other = min(CONTENTS, size - start), drawn % CONTENTS
                room[at + start:at + start + count] = self.contents[other:other + count]
                drawn //= CONTENTS
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

    def behind_head(self, place, args, kwargs):
        """The arguments of an operator that takes an offset into a tensor's memory, at a place
        among them or by its name: counted from where the buffer begins."""
        buf = self.buffer_of(args[0])
        head = self.heads[id(buf)] // args[0].dtype.itemsize if buf is not None else 0
        given = args[place] if len(args) > place else kwargs.get("storage_offset")
        if not head or given is None:
            return args, kwargs
        if given < head:
            tracer_driver.RECORDER.refuse("host code takes memory in front of a tensor that it was given: as_strided "
                                          "counts from the begin of all memory that a view is a part of")
        if len(args) > place:
            return (*args[:place], given - head, *args[place + 1:]), kwargs
        return args, {**kwargs, "storage_offset": given - head}

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


TENSOR_OFFSET, USE_COUNT = torch._C.TensorBase.storage_offset, torch._C._storage_Use_Count
# The middle of what torch draws, from a function's arguments behind the first; all weights of
# modules come from these.
MIDDLES = {"aten::normal_": lambda mean=0.0, std=1.0, **kwargs: mean,
           "aten::uniform_": lambda low=0.0, high=1.0, **kwargs: (kwargs.get("from", low) + kwargs.get("to", high)) / 2,
           "aten::randn": lambda *args, **kwargs: 0.0, "aten::randn_like": lambda *args, **kwargs: 0.0,
           "aten::rand": lambda *args, **kwargs: 0.5, "aten::rand_like": lambda *args, **kwargs: 0.5}
IMPLICIT = torch._C.DispatchKey.CompositeImplicitAutograd
SHELL = None


class PlainMode(TorchDispatchMode):
    """Every operator comes here first; those on tensors of the host's go on to the CPU."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in VIEWED_IN_PLACE:
            return tracer_tensor.view_in_place(func, args, kwargs or {})
        # Elsewhere torch itself has taken these apart before they come here, with its
        # own code: what Python has beside that is for compilers, and copies what a
        # dropout in eval mode hands on.
        if torch.is_inference_mode_enabled() and func._can_decompose():
            with self:
                return decomposed(func)(*args, **(kwargs or {}))
        if func._schema.name in AT_OFFSETS:
            args, kwargs = SHELL.behind_head(AT_OFFSETS[func._schema.name], args, kwargs or {})
        back = {}
        args, kwargs = SHELL.inwards(args, back), SHELL.inwards(kwargs or {}, back)
        out = tracer_tensor.TRACER.dispatch(func, args, kwargs)
        if SHELL.spread != 1 and func._schema.name in MIDDLES and is_of_the_seed(out, kwargs.get("generator")):
            middle = MIDDLES[func._schema.name](*args[1:], **kwargs)
            out.sub_(middle).mul_(SHELL.spread).add_(middle)
            SHELL.spreads += 1
        return SHELL.outwards(out, back)


def decomposed(func):
    """An operator that torch takes apart, as it does outside of inference mode."""
    has_own = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), IMPLICIT)
    return functools.partial(func._op_dk, IMPLICIT) if has_own else func.decompose


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


C = ctypes.PyDLL(None)      # worker/descriptors.c
for _make in (C.descriptor_method, C.descriptor_attribute):
    _make.restype = ctypes.py_object
    _make.argtypes = ctypes.py_object, ctypes.c_char_p, ctypes.c_char_p, ctypes.py_object
C.descriptor_keys.argtypes = ctypes.c_void_p, ctypes.py_object
AS_MAPPING = 14 * ctypes.sizeof(ctypes.c_void_p)      # where CPython's type has its functions for keys
KEPT = []      # texts that descriptors point to


def stand_in(cls, answers):
    """Methods and attributes of a class of C's by name, with a function of Python's for each. They
    are descriptors as C's own are, in the same class: whoever looks at them sees an ordinary
    process."""
    table = gc.get_referents(cls.__dict__)[0]
    for name, answer in answers.items():
        real = table[name]
        make = C.descriptor_method if type(real) is types.MethodDescriptorType else C.descriptor_attribute
        texts = name.encode(), real.__doc__ and real.__doc__.encode()
        KEPT.append((real, texts))
        table[name] = make(cls, *texts, answer)
    C.PyType_Modified(ctypes.py_object(cls))


def install_tensor():
    real = {name: getattr(torch.Tensor, name)
            for name in ("to", "cuda", "cpu", "numpy", "tolist", "__array__", "get_device", "type", "data_ptr", "item")}
    real_device, written = torch._C.TensorBase.device, torch._C.TensorBase._version
    device = lambda self: torch.device("cuda", 0) if stands_for_cuda(self) else real_device.__get__(self)

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

    # A value that is a parameter's element, drawn; else what the tensor has.
    def value(t):
        trace = SHELL.trace_of(t) if stands_for_cuda(t) else None
        number = None if trace is None else tracer_tensor.TRACER.value_number(trace)
        if number is None:
            return None
        refuse = lambda: tracer_driver.RECORDER.fail("data-dependent", tracer_value.DECIDES)
        return drawn(tracer_value.SOURCE, float, ("value", number), plain=tracer_value.value_of(number, refuse))
    tracer_rewrite.PARAMETER[0] = value

    def item(self):
        found = value(self) if is_asked() else None
        return real["item"](self) if found is None else found

    def type_of(self, dtype=None, *args, **kwargs):
        text = real["type"](self, dtype, *args, **kwargs)
        return text.replace("torch.", "torch.cuda.", 1) if dtype is None and stands_for_cuda(self) else text

    # Of an address only its alignment is a fact of the task.
    def data_ptr(self):
        buf, address = SHELL.buffer_of(self), real["data_ptr"](self)
        if buf is not None:
            tracer_driver.RECORDER.number(buf)      # as in the first trace, where the number is the address
        if not is_asked():
            return address
        storage = self.untyped_storage()
        return address_of(address, of_storage(storage), STEP if buf is not None else 16, life_of(storage))
    of_storage = torch.UntypedStorage.data_ptr
    # How often a tensor was written to is no more than a counter to host code.
    before = DRAWN.randrange(1 << 10, 1 << 20)

    def version(self):
        count = written.__get__(self) + before
        return drawn("_version", int, ("version", id(self), count), low=0) if is_asked() else count

    def array(self, *args, **kwargs):
        return read(self, "numpy conversion").numpy() if stands_for_cuda(self) else real["__array__"](
            self, *args, **kwargs)
    tracer_disguise.disguise(array, "Tensor.__array__", "torch._tensor")
    torch.Tensor.__array__ = array
    # What a tensor says of where it lies, and what reads its values, which ends the trace by name.
    stand_in(torch._C.TensorBase, {
        "device": device, "is_cuda": lambda self: device(self).type == "cuda",
        "is_cpu": lambda self: device(self).type == "cpu", "_version": version,
        "get_device": lambda self: 0 if stands_for_cuda(self) else real["get_device"](self),
        "to": to, "type": type_of, "data_ptr": data_ptr, "item": item,
        "cuda": lambda self, *args, **kwargs: self if stands_for_cuda(self) else real["to"](self, "cuda"),
        "cpu": lambda self, *args, **kwargs: to(self, "cpu") if stands_for_cuda(self) else self,
        "numpy": lambda self, *a, **k: read(self, "numpy()").numpy(*a, **k) if stands_for_cuda(
            self) else real["numpy"](self, *a, **k),
        "tolist": lambda self: read(self, "tolist()").tolist() if stands_for_cuda(self) else real["tolist"](self)})
    install_storage(of_storage)
    install_keys()


def install_storage(of_storage):
    base = torch.UntypedStorage.__base__
    real_device, resizable = base.device, base.resizable
    is_cudas = lambda self: self._cdata in SHELL.by_storage
    stand_in(base, {
        "device": lambda self: torch.device("cuda", 0) if is_cudas(self) else real_device.__get__(self),
        "resizable": lambda self: is_cudas(self) or resizable(self),
        "data_ptr": lambda self: address_of(of_storage(self), of_storage(self), STEP if is_cudas(self) else 16, life_of(
            self)) if is_asked() else of_storage(self)})


def life_of(storage):
    """Memory that nobody but the shell holds is free on a GPU, and the next tensor may get it."""
    key = storage._cdata
    if key in SHELL.by_storage:
        return Life(key, lambda: USE_COUNT(key) <= 1, None, True)
    weak = StorageWeakRef(storage)
    return Life(weak.cdata, weak.expired, weak, True)


LIVES.append(life_of)


def install_keys():
    """Where an index is drawn torch says that it is no index, and not why."""
    def look(key):
        found = first_drawn((key,))
        if found is not None:
            tracer_drawn.refuse(found)
    classes = [torch._C.TensorBase]
    for cls in classes:
        classes += [c for c in cls.__subclasses__() if c not in classes]
        C.descriptor_keys(ctypes.c_void_p.from_address(id(cls) + AS_MAPPING), look)


def install(seed):
    """In the job's process, before anything of the candidate's is there."""
    global SHELL
    SHELL = Shell()
    tracer_driver.SHELL = SHELL
    install_tensor()
    tracer_clocks.install_second()
    tracer_process.install_names()
    tracer_chance.install(seed)
    tracer_process.install_process()
    tracer_watch.install()
    tracer_asked.LOGGERS = frozenset(logging.root.manager.loggerDict)
    tracer_disguise.STAND_IN_CLASSES |= {id(type(os.environ)), id(type(sys.flags))}
    return SHELL
