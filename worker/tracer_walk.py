"""tracer_walk: looks through what a candidate's host code holds, object by object.

Out come values by path, from which two looks at the same thing are told apart; or the first thing
whose contents cannot be looked at.
"""
import array
import builtins
import collections
import contextvars
import ctypes
import datetime
import decimal
import functools
import gc
import hashlib
import io
import itertools
import logging
import random
import re
import threading
import types
import weakref

import numpy
import torch
import triton
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITCallable

import tracer_tables
from tracer_tables import NAMES_OF, PLAIN_SCALARS, SCALARS, is_own
from tracer_words import HAS_VERSIONS, WORD, version_of

ITEMS_MAX = 50000
BYTES_MAX = 64 << 20     # of one tensor's memory on the host, which each snapshot reads
NODES_MAX = 1000         # of the graph behind a tensor
DEPTH_MAX = 24
COLLECTIONS = frozenset((list, dict, set))
ITERATORS = frozenset(type(i) for i in (iter([]), iter(()), iter(range(0)), iter(""), iter(b""), reversed([]),
                                    itertools.count(), itertools.cycle(()), itertools.repeat(0), itertools.chain(),
                                    itertools.islice((), 0), enumerate(()), zip(), map(abs, ()), filter(abs, ()),
                                    iter({}), iter(set()), iter({}.values()), iter({}.items()), iter(int, 1),
                                    iter(bytearray())))
FRAMES = {types.GeneratorType: "gi", types.CoroutineType: "cr", types.AsyncGeneratorType: "ag"}
WAITS = {"gi": "gi_yieldfrom", "cr": "cr_await", "ag": "ag_await"}
BUFFERS = (bytearray, memoryview, array.array, io.StringIO, io.BytesIO)
# Objects of Python's that hold others, and what they call them.
PARTS = {functools.partial: ("func", "args", "keywords", "__dict__"), types.CellType: ("cell_contents",),
         staticmethod: ("__func__", "__dict__"), classmethod: ("__func__", "__dict__"),
         property: ("fget", "fset", "fdel", "__doc__"), functools.cached_property: ("func", "attrname", "__doc__")}
# What a function says of itself, and host code may write.
FUNCTIONS_OWN = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")


def entry_of_a_cache():
    """The class of what functools.cache keeps beside its results, which its referents hold as
    well."""
    cached = functools.lru_cache(maxsize=2)(abs)
    cached(-1)
    table = next(v for v in gc.get_referents(cached) if type(v) is dict and -1 in v)
    return type(table[-1])


# Objects of Python's that never change: what they are is what they say. A name may be bound to
# another one.
STILL = (types.ModuleType, types.WrapperDescriptorType, types.MethodWrapperType,
         types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
         types.MemberDescriptorType, types.CodeType, types.GenericAlias, types.UnionType, range, slice,
         type(...), type(NotImplemented), re.Pattern, decimal.Decimal, datetime.date, datetime.time,
         datetime.timedelta, datetime.tzinfo, entry_of_a_cache())
STILL_VALUES = (functools.partial, range, slice, re.Pattern, decimal.Decimal, datetime.date, datetime.time,
                datetime.timedelta, types.GenericAlias, types.MethodType, types.FunctionType)
FILE = io.IOBase.__base__      # in C: asked of a class that has no list of others that count as it
CDATA = ctypes.Structure.__base__
LOCKS = (type(threading.Lock()), type(threading.RLock()))
PYTHONS_OWN = frozenset(("__builtins__", "__doc__", "__loader__", "__spec__", "__name__", "__package__", "__file__",
                         "__cached__", "__dict__", "_abc_impl", "__weakref__", "__module__", "__annotations__",
                         "__qualname__"))
TRACERS_OWN = frozenset(("_inner", "_buffer", "_tracer", "_is_param"))
KERNELS_OWN = frozenset((*vars(triton.language.sum), *vars(triton.autotune([], [])(triton.language.sum)), "values"))


SAID_OF_CLASSES = [type.__dict__[name] for name in ("__name__", "__qualname__", "__bases__")]


def scalars(table):
    """Numbers and texts by name, and the public collections; private caches are their owner's."""
    found, collections = {}, {}
    for key, value in list(table.items()):
        kind = type(value)
        if kind in PLAIN_SCALARS:
            found[key] = value
        elif kind in SCALARS:
            found[key] = (kind, repr(value))      # by text: True is not 1, and NaN is NaN
        elif kind in COLLECTIONS and not key.startswith("_"):
            collections[key] = value
    return found, collections


def lengths(collections):
    """Of what only grows its length; of lists, which nobody but host code writes to, their
    contents."""
    return {key: (type(value), len(value), digest(repr([brief(v) for v in flat(value) if type(v) in SCALARS]))
                  if type(value) is list else "") for key, value in collections.items()}


def parts_of(value):
    """What an object refers to, beside classes and what the tracer keeps in a tensor."""
    found = [part for part in gc.get_referents(value) if not issubclass(type(part), type)]
    if not issubclass(type(value), torch.Tensor):
        return found
    return [{k: v for k, v in part.items() if k not in TRACERS_OWN} if type(part) is dict else part for part in found]


def digest(data):
    return hashlib.blake2b(data.encode() if isinstance(data, str) else data, digest_size=12).hexdigest()


class Walk:
    """Looks through what a candidate holds, object by object."""

    def __init__(self, young=frozenset()):
        self.out = {}
        self.young = young       # identities of functions that were made since the zygote
        self.seen = set()
        self.kept = []           # what was made to be looked at: another object may not take its place
        self.unseen = None       # the first thing whose contents cannot be looked at
        self.on_tape = frozenset()      # identities of tensors of the device that forward may update

    def names(self, name, table, depth):
        self.out[f"{name} (the order of names)"] = hash(tuple(table))
        for key, value in list(table.items()):
            if key in PYTHONS_OWN:
                self.pythons_own(f"{name}.{key}", value, depth + 1)
            else:
                self.visit(f"{name}.{key}", value, depth + 1)

    def pythons_own(self, path, value, depth):
        """Under a name of Python's own: what Python puts there stands still, and host code may have
        put something else there."""
        kind = type(value)
        if value is vars(builtins) or kind.__module__ in ("typing", "_abc"):
            return
        if kind is dict:
            self.out[path] = f"{len(value)} items"
            for key, part in list(value.items()):
                self.pythons_own(f"{path}[{key!r:.40}]", part, depth + 1)
        else:
            self.visit(path, value, depth)

    def items(self, path, values, depth):
        for i, value in enumerate(values):
            self.visit(f"{path}[{i}]", value, depth + 1)

    def keep(self, made):
        self.kept.append(made)
        return made

    def visit(self, path, value, depth):
        # Plain values are written down. What was seen before is not walked again,
        # and the walk has an end.
        kind = type(value)
        if kind in SCALARS:
            self.out[path] = brief(value)
            return
        if id(value) in self.seen:
            return
        if len(self.out) >= ITEMS_MAX or depth > DEPTH_MAX:
            self.unseen = self.unseen or f"{path}, behind too many other things"
            return
        self.seen.add(id(value))
        # Python's own containers and iterators: their items.
        if kind in (list, tuple, collections.deque):
            if all(type(v) in SCALARS for v in value):
                self.out[path] = digest(repr(value))
                return
            self.out[path] = f"{len(value)} items"
            self.items(path, value, depth)
        elif kind in (dict, types.MappingProxyType):
            self.mapping(path, value, depth)
        elif kind in (set, frozenset):
            # In the order that it has: two numbers of one place in the table stand as they came.
            self.out[path] = digest(repr([v for v in value if type(v) in SCALARS]))
            self.items(path, [v for v in value if type(v) not in SCALARS], depth)
        elif kind in ITERATORS or kind.__module__ == "itertools":
            self.items(path, self.keep(value.__reduce__()), depth)      # what is still to come
        elif kind in FRAMES:
            self.suspended(path, value, FRAMES[kind], depth)
        # State that host code could count calls by.
        elif kind is decimal.Context:
            self.out[path] = digest(repr(value))
        elif issubclass(kind, random.Random):
            self.out[path] = digest(repr(value.getstate()))
        elif issubclass(kind, torch.Generator):
            self.out[path] = digest(value.get_state().numpy().tobytes())
        # Tensors and arrays by what they hold, all else by what it is made of.
        elif issubclass(kind, torch.Tensor):
            self.tensor(path, value, depth)
        elif kind in BUFFERS or kind.__module__.startswith("numpy"):
            self.array(path, value, depth)
        else:
            try:
                self.object(path, value, depth)
            except Exception:
                self.unseen = self.unseen or f"{path}, which cannot be looked at"
        # A class of the candidate's says of itself what it likes, and may
        # be of each of these kinds.
        if is_own(kind) and not issubclass(kind, type):
            self.items(path, self.keep(parts_of(value)), depth)

    def mapping(self, path, value, depth):
        keys = list(value)
        self.out[path] = f"{len(keys)} items {digest(repr([brief(k) for k in keys if type(k) in SCALARS]))}"
        for key in keys:
            self.visit(f"{path}[{key!r:.40}]" if type(key) in SCALARS else f"{path}[...]", value[key], depth + 1)

    def suspended(self, path, value, prefix, depth):
        """A generator or coroutine: where it stands, its names, and what it waits for."""
        frame = getattr(value, f"{prefix}_frame")
        self.out[path] = f"{value.__name__} {value.__qualname__} {frame.f_lasti if frame else -1}"
        if frame:
            self.names(path, frame.f_locals, depth)
            self.visit(f"{path} (waits)", getattr(value, WAITS[prefix]), depth + 1)

    def tensor(self, path, value, depth):
        # How often an input or the model's state was written to is on the tape, as in torch's batch
        # normalisation, which counts its batches; the second trace's count is another.
        written = "" if path.startswith("inputs") or id(value) in self.on_tape else value._version
        offset = value.storage_offset() if value.layout is torch.strided else None
        self.out[path] = (f"{tuple(value.shape)} {value.stride()} {offset} {value.names} {value.dtype}"
                          f" {value.requires_grad} {written}")
        if type(value) is torch.Tensor and value.device.type == "cpu":
            if value.layout is torch.strided:
                self.storage(f"{path} (memory)", value.untyped_storage())
            else:
                self.out[path] += digest(repr(value.tolist()))
        kept = TRACERS_OWN if type(value) is not torch.Tensor else ()      # a plain tensor has none of the tracer's
        self.names(path, {k: v for k, v in getattr(value, "__dict__", {}).items() if k not in kept}, depth)
        if value.is_leaf and value.grad is not None:
            self.visit(f"{path}.grad", value.grad, depth + 1)
        if value.grad_fn is not None:
            self.graph(path, value.grad_fn, depth)

    def graph(self, path, node, depth):
        """What host code attached to the graph behind a tensor."""
        nodes, known = [node], {node}
        for node in nodes:
            self.visit(f"{path} (graph)", node.metadata, depth + 1)
            self.names(f"{path} (graph)", getattr(node, "__dict__", {}), depth)
            new = [n for n, _ in node.next_functions if n is not None and n not in known]
            known.update(new)
            nodes.extend(new)
            if len(nodes) > NODES_MAX:
                self.unseen = self.unseen or f"{path}, behind which a large graph is"
                return

    def array(self, path, value, depth):
        """Plain memory, and numpy's arrays."""
        if getattr(getattr(value, "dtype", None), "hasobject", False):
            self.visit(path, self.keep(value.tolist()), depth + 1)
        elif hasattr(value, "tobytes"):
            self.out[path] = digest(value.tobytes())
            # A view of it need not show all memory.
            whole = value.obj if type(value) is memoryview else getattr(value, "base", None)
            self.visit(f"{path} (whole)", whole, depth + 1)
        elif hasattr(value, "getvalue"):
            self.out[path] = f"{digest(repr(value.getvalue()))} at {value.tell()}"
        elif isinstance(value, bytearray):
            self.out[path] = digest(bytes(value))
        elif hasattr(value, "bit_generator"):
            self.visit(path, value.bit_generator.state, depth + 1)
        elif hasattr(value, "get_state"):
            self.visit(path, value.get_state(), depth + 1)
        elif isinstance(value, (numpy.flatiter, numpy.nditer, numpy.broadcast)):
            self.unseen = self.unseen or f"{path}, an iterator of numpy's"
        elif isinstance(value, numpy.random.SeedSequence):
            self.out[path] = brief(repr(value.state))
        elif isinstance(value, numpy.dtype):
            self.out[path] = brief(value)
        if type(getattr(value, "__dict__", None)) is dict:
            self.names(path, vars(value), depth)

    def object(self, path, value, depth):
        """Functions, kernels, modules of torch, the candidate's own classes and objects of
        Python's; nothing of another library's."""
        kind = type(value)      # not what the object says of its class
        # Kernels, functions and what functions are made of.
        if issubclass(kind, (JITCallable, Autotuner, Heuristics)):
            self.kernel(path, value, depth)
        elif kind is types.FunctionType:
            self.function(path, value, depth)
        elif kind is types.MethodType:
            self.visit(path, value.__func__, depth + 1)
            self.visit(f"{path}.__self__", value.__self__, depth + 1)
        elif kind is weakref.ref:
            self.visit(f"{path}()", value(), depth + 1)
        elif kind in PARTS:
            for name in PARTS[kind]:
                try:
                    self.visit(f"{path}.{name}", getattr(value, name, None), depth + 1)
                except ValueError:
                    pass         # an empty cell
        # Classes and modules, as far as they are the candidate's.
        elif issubclass(kind, type):
            if is_own(value):
                said = [part.__get__(value) for part in SAID_OF_CLASSES]
                self.out[f"{path} (class)"] = digest(repr(said))
                self.items(f"{path} (bases)", said[-1], depth)
                self.names(path, NAMES_OF(value), depth)
        elif issubclass(kind, types.ModuleType) and not is_own(kind):
            self.module(path, value, depth)
        elif kind in (types.BuiltinMethodType, types.MethodWrapperType):
            self.out[path] = value.__name__
            self.visit(f"{path}.__self__", value.__self__, depth + 1)
        # Objects of the standard library with state, then all others by their attributes.
        elif issubclass(kind, STILL) and not is_own(kind):
            self.still(path, value, kind, depth)
        elif issubclass(kind, logging.Logger):
            self.out[path] = repr((value.level, value.disabled, len(value.handlers), len(value.filters)))
            self.librarys(path, value, depth)
        elif kind is contextvars.ContextVar:
            self.visit(f"{path} (value)", value.get(None), depth + 1)
        elif kind is functools._lru_cache_wrapper:
            self.out[f"{path} (a cache)"] = str(value.cache_info().currsize)
            self.items(path, [v for v in gc.get_referents(value) if not isinstance(v, type)], depth)
        elif issubclass(kind, torch.nn.Module) or is_pythons(kind) or is_own(kind):
            self.instance(path, value, kind, depth)
        elif not kind.__module__.startswith("tracer"):
            self.librarys(path, value, depth)

    def still(self, path, value, kind, depth):
        if kind in (types.GenericAlias, types.UnionType):
            self.items(path, value.__args__, depth)
        elif kind is types.CodeType:
            self.out[path] = digest(repr((value.co_code, value.co_consts, value.co_names, value.co_firstlineno)))
        elif kind is slice:
            self.items(path, (value.start, value.stop, value.step), depth)
        elif kind is re.Pattern:
            self.out[path] = brief(f"{value.flags} {value.pattern!r}")
        elif issubclass(kind, (range, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta)):
            self.out[path] = brief(value)
        else:
            self.out[path] = str(id(value))

    def module(self, path, value, depth):
        """One that host code has made is looked through; of one that was imported since the zygote,
        its numbers, texts and collections."""
        if tracer_tables.TABLES and id(vars(value)) in tracer_tables.TABLES.known:
            return
        if getattr(value, "__spec__", None) is None:
            self.names(path, vars(value), depth)
        else:
            self.librarys(path, value, depth)

    def librarys(self, path, value, depth):
        """An object of torch's or Triton's: its plain attributes, and what stands in its
        collections."""
        table, kind = getattr(value, "__dict__", None), type(value)
        if isinstance(value, (list, tuple)):
            self.visit(f"{path} (items)", self.keep(list(value)), depth + 1)
        elif issubclass(kind, (torch.UntypedStorage, torch.TypedStorage)):
            self.storage(path, value)
        elif type(table) is not dict:
            # Written in C++: what it says of itself, and what it holds where it has a length.
            self.out[path] = brief(value)
            if kind.__repr__ is object.__repr__ and any(cls.__name__ == "pybind11_object" for cls in kind.__mro__):
                self.unseen = self.unseen or f"{path}, a {kind.__module__}.{kind.__qualname__}"
            elif kind.__module__.startswith("torch._C") and hasattr(kind, "__len__"):
                self.visit(f"{path} (items)", self.keep(list(value)), depth + 1)
            elif kind.__name__ == "ScriptModule":
                self.unseen = self.unseen or f"{path}, an object of TorchScript"
        for name, part in list(table.items()) if type(table) is dict else ():
            if type(part) in SCALARS:
                self.out[f"{path}.{name}"] = brief(part)
            elif type(part) in COLLECTIONS and name != "__builtins__":
                self.out[f"{path}.{name}"] = digest(repr([brief(v) for v in flat(part) if type(v) in SCALARS]))
            elif isinstance(part, (tuple, torch.Tensor, *STILL_VALUES)) or is_own(type(part)):
                self.visit(f"{path}.{name}", part, depth + 1)

    def storage(self, path, value):
        """A tensor's memory on the host, whatever part of it the tensor shows."""
        if value.device.type != "cpu":
            return
        storage = value.untyped() if isinstance(value, torch.TypedStorage) else value
        if storage.nbytes() > BYTES_MAX:
            self.unseen = self.unseen or f"{path}, {storage.nbytes()} bytes of the host's"
        elif storage.nbytes():
            self.out[path] = digest(ctypes.string_at(storage.data_ptr(), storage.nbytes()))

    def kernel(self, path, value, depth):
        """What Triton keeps of a kernel only grows; what host code adds is looked through."""
        found, collections = scalars(vars(value))
        self.out[path, "scalars"], self.out[path, "collections"] = found, lengths(collections)
        self.names(path, {k: v for k, v in vars(value).items() if k not in KERNELS_OWN}, depth)
        function = getattr(value, "fn", None)
        if isinstance(function, (JITCallable, Autotuner, Heuristics)):
            self.visit(path, function, depth + 1)

    def function(self, path, value, depth):
        if tracer_tables.TABLES and id(value.__globals__) in tracer_tables.TABLES.known and id(value) not in self.young:
            return
        code = value.__code__
        self.out[f"{path} (code)"] = digest(repr((code.co_consts, code.co_names, code.co_varnames, code.co_name,
                                                  code.co_qualname, code.co_firstlineno, code.co_stacksize)))
        for name in FUNCTIONS_OWN:
            self.pythons_own(f"{path}.{name}", getattr(value, name), depth + 1)
        self.names(path, value.__dict__, depth)
        self.items(f"{path} (default)", (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()), depth)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            self.visit(f"{path} ({name})", cell, depth + 1)

    def instance(self, path, value, kind, depth):
        """An object's attributes and slots, and what a class of Python's own in C says of its
        state."""
        # Attributes and slots.
        self.names(path, getattr(value, "__dict__", {}), depth)
        for cls in kind.__mro__:
            for name in members(cls):
                self.visit(f"{path}.{name}", getattr(value, name, None), depth + 1)
        # What a subclass of a container holds, whatever its own methods say.
        if issubclass(kind, dict):
            ordered = issubclass(kind, collections.OrderedDict)
            self.mapping(path, dict((collections.OrderedDict if ordered else dict).items(value)), depth)
        for plain in (list, tuple, set, frozenset, collections.deque):
            if issubclass(kind, plain):
                self.visit(f"{path} (items)", self.keep(list(plain.__iter__(value))), depth + 1)
        if issubclass(kind, BaseException):
            self.items(path, self.keep([value.args, value.__cause__, value.__context__]), depth)
            self.out[f"{path} (traceback)"] = repr(places_of(value.__traceback__))
            for name in exceptions_own(kind):
                self.visit(f"{path}.{name}", self.keep(getattr(value, name, None)), depth + 1)
        if issubclass(kind, (*BUFFERS, numpy.ndarray)):
            self.array(path, value, depth)
        elif issubclass(kind, CDATA):
            self.out[path] = digest(ctypes.string_at(ctypes.addressof(value), ctypes.sizeof(value)))
        elif issubclass(kind, FILE):
            self.file(path, value)
        for base in kind.__mro__:
            if base in ITERATORS or base.__module__ == "itertools":
                self.items(f"{path} (to come)", self.keep(base.__reduce__(value)), depth)
        for cls in kind.__mro__:
            if is_own(cls):
                self.visit(cls.__name__, cls, depth + 1)
        # Python's own types in C have no attributes: what they would be pickled as is their state.
        if hasattr(value, "__dict__") or any("__slots__" in NAMES_OF(cls) for cls in kind.__mro__):
            if hides(kind):
                self.unseen = self.unseen or f"{path}, a {kind.__module__}.{kind.__qualname__}"
            return
        if kind in LOCKS:
            self.out[path] = repr(value)
            return
        try:
            self.items(path, self.keep(value.__reduce_ex__(2)[1:]), depth)
        except Exception:
            self.unseen = self.unseen or f"{path}, a {kind.__module__}.{kind.__qualname__}"

    def file(self, path, value):
        """Where a file stands; pipes stand nowhere."""
        try:
            self.out[path] = str(value.tell())
        except (OSError, ValueError):
            pass


MEMBERS = {}      # (address of a class's dict, its version) -> its slots by name


def members(cls):
    """The names of a class's slots. Asked at each snapshot of the same classes, some of which have
    a hundred names that are none."""
    if not HAS_VERSIONS:
        return slots(cls)
    table = gc.get_referents(type.__dict__["__dict__"].__get__(cls))[0]
    key = id(table), version_of(table)
    if key not in MEMBERS:
        MEMBERS[key] = slots(cls)
    return MEMBERS[key]


def slots(cls):
    return [name for name, member in type.__dict__["__dict__"].__get__(cls).items()
            if type(member) is types.MemberDescriptorType and cls.__module__ != "builtins"]


def places_of(traceback):
    """Through which callers an exception was raised, and how often."""
    places = []
    while traceback is not None:
        places.append((traceback.tb_lineno, traceback.tb_lasti))
        traceback = traceback.tb_next
    return places


@functools.cache
def exceptions_own(kind):
    """What classes of exceptions keep in C, beside arguments, causes and traceback."""
    kinds = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return [name for cls in kind.__mro__ if not is_own(cls) for name, member in NAMES_OF(cls).items()
            if type(member) in kinds and name not in ("__dict__", "__weakref__", "__traceback__")]


# Classes in C whose fields a walk looks at, or that refer to objects and hold nothing else.
IN_SIGHT = (BaseException, dict, list, tuple, set, frozenset, collections.deque, numpy.ndarray, FILE, int, float,
            complex, str, bytes, property, staticmethod, classmethod, functools.partial, weakref.ref, type,
            threading.local, CDATA, *BUFFERS, *STILL, *ITERATORS)


@functools.cache
def hides(kind):
    """Whether objects of a class have fields that no attribute or slot shows, as those of classes
    written in C may: they are larger than their attributes, weak references and slots are."""
    for cls in kind.__mro__[:-1]:
        shown = WORD * (2 + sum(type(m) is types.MemberDescriptorType for m in NAMES_OF(cls).values()))
        if cls.__basicsize__ > cls.__base__.__basicsize__ + shown and not issubclass(cls, IN_SIGHT):
            return not (cls.__module__ == "itertools" or cls in LOCKS)
    return False


def flat(collection, depth=4):
    """What stands in a collection, and in the collections in it."""
    parts = [*collection, *collection.values()] if isinstance(collection, dict) else list(collection)
    inner = [v for v in parts if depth and type(v) in COLLECTIONS]
    return parts + [v for part in inner for v in flat(part, depth - 1)]


def brief(value):
    text = repr(value)
    return text if len(text) <= 64 else digest(text)


def is_pythons(kind):
    """A class of Python's own, or a library's that is not torch's or Triton's."""
    return not kind.__module__.startswith(("torch", "triton", "numpy", "tracer", "logging"))
