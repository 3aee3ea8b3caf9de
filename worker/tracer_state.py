"""tracer_state: what a candidate's host code remembers from call to call, as far as Python shows it.

A counter with a threshold beyond the calls that a trace makes, a draw of random numbers, a queue
that fills: all of them change something that is reachable from the model, the candidate's module or
a well-known place. Constants, caches by shape and compiled kernels settle; what goes on changing is
state.
"""
import builtins
import collections
import ctypes
import hashlib
import itertools
import math
import os
import random
import sys
import time
import types
from operator import is_

import torch
import triton
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITCallable

ITEMS_MAX = 50000
DEPTH_MAX = 24
LIBRARIES = ("torch", "triton", "numpy", "builtins", "collections", "functools", "typing", "tracer", "logging",
             "threading", "re")
PLAIN_SCALARS = frozenset((int, str, bytes, type(None)))
ENVIRONMENT = type(os.environ)
SCALARS = PLAIN_SCALARS | {float, bool, complex}
COLLECTIONS = frozenset((list, dict, set))
ITERATORS = tuple(type(i) for i in (iter([]), iter(()), iter(range(0)), iter(""), iter(b""), reversed([]),
                                    itertools.count(), itertools.cycle(()), itertools.repeat(0), itertools.chain(),
                                    itertools.islice((), 0), enumerate(()), zip(), map(abs, ())))
WATCHED = (builtins, sys, os, math, random, time, types, collections, itertools, torch, torch.nn, torch.nn.functional,
           torch.cuda, triton, triton.language)


def snapshot(model, module):
    """Everything that could count: {path: value}; a path is a text, or a pair for the names in one
    thing."""
    walk = Walk()
    walk.visit("model", model, 0)
    walk.names(module.__name__, vars(module), 0)
    for module in WATCHED:
        watch(module, walk.out)
    walk.out["os.environ"] = (dict(os.environ._data) if type(os.environ) is ENVIRONMENT
                              else digest(repr(sorted(os.environ.items()))))
    walk.out["the state of the module random"] = random.getstate()
    walk.out["the state of torch's random numbers"] = digest(torch._C.default_generator.get_state().numpy().tobytes())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, key, *rest = numpy.random.get_state()
        walk.out["the state of numpy's random numbers"] = (kind, key.tobytes(), *rest)
    return walk.out


def difference(before, after):
    """The first thing that changed, in words, or None."""
    for path, value in after.items():
        if before.get(path, value) != value:
            return words(path, before.get(path), value)
    missing = [path for path in after if path not in before] or [path for path in before if path not in after]
    return missing[0] if missing else None


def words(path, before, after):
    """A path as people say it; of several names the first in question."""
    if isinstance(path, str):
        return path
    found = [key for key in {**after, **before} if key not in before or key not in after or before[key] != after[key]]
    return f"{path[0]}.{found[0]}"


# well-known module -> (its table's version, its names and values when it was looked through, its
# scalars, its collections)
KNOWN = {}


def version_of(table):
    """A number that CPython changes whenever a dict does (PEP 509). To look at the values instead
    counts references to them, and so writes to a thousand pages that a fork shares with the
    zygote."""
    return ctypes.c_uint64.from_address(id(table) + VERSION_AT).value


def has_versions():
    """Whether this interpreter keeps that number, at this place."""
    table = {"a": 1}
    seen = [version_of(table)]
    for change in (lambda: table.update(b=2), lambda: table.update(a=3), lambda: table.pop("b")):
        change()
        seen.append(version_of(table))
    return (len(set(seen)) == len(seen) and table["a"] == 3 and version_of(table) == seen[-1]
            and version_of(dict(table)) != seen[-1])


VERSION_AT = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
HAS_VERSIONS = sys.implementation.name == "cpython" and has_versions()


def watch(module, out):
    """A well-known module. It is looked through again only where it has changed since: as long as
    names and values are the same objects, so are the scalars."""
    table, known = vars(module), KNOWN.get(module)
    version = version_of(table) if HAS_VERSIONS else None
    if known is None or version is None or version != known[0]:
        if (known is None or len(known[1]) != len(table) or not all(map(is_, known[1], table))
                or not all(map(is_, known[1].values(), table.values()))):
            known = (dict(table), *scalars(table))
        else:
            known = known[1:]
        KNOWN[module] = known = (version, *known)
    out[module.__name__, "scalars"] = known[2]
    out[module.__name__, "collections"] = lengths(known[3])


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
    return {key: (type(value), len(value)) for key, value in collections.items()}


def digest(data):
    return hashlib.blake2b(data.encode() if isinstance(data, str) else data, digest_size=12).hexdigest()


class Walk:
    def __init__(self):
        self.out = {}
        self.seen = set()

    def names(self, name, table, depth):
        for key, value in list(table.items()):
            if not (isinstance(key, str) and key.startswith("__") and key.endswith("__")):
                self.visit(f"{name}.{key}", value, depth + 1)

    def items(self, path, values, depth):
        for i, value in enumerate(values):
            self.visit(f"{path}[{i}]", value, depth + 1)

    def visit(self, path, value, depth):
        if len(self.out) >= ITEMS_MAX or depth > DEPTH_MAX:
            return
        kind = type(value)
        if kind in SCALARS:
            self.out[path] = repr(value)[:64]
            return
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if kind in (list, tuple, collections.deque):
            self.out[path] = f"{len(value)} items"
            self.items(path, value, depth)
        elif isinstance(value, dict):
            self.out[path] = f"{len(value)} items"
            for key, item in list(value.items()):
                self.visit(f"{path}[{key!r:.40}]" if type(key) in SCALARS else f"{path}[...]", item, depth + 1)
        elif kind in (set, frozenset):
            self.out[path] = f"{len(value)} items"
        elif kind in ITERATORS:
            self.out[path] = repr(value.__reduce__())[:64]
        elif isinstance(value, types.GeneratorType):
            self.generator(path, value, depth)
        elif isinstance(value, random.Random):
            self.out[path] = digest(repr(value.getstate()))
        elif isinstance(value, torch.Generator):
            self.out[path] = digest(value.get_state().numpy().tobytes())
        else:
            self.object(path, value, depth)

    def generator(self, path, value, depth):
        frame = value.gi_frame
        self.out[path] = str(frame.f_lasti if frame else -1)
        if frame:
            self.names(path, frame.f_locals, depth)

    def object(self, path, value, depth):
        """Functions, kernels, modules of torch and the candidate's own classes; nothing of a
        library's."""
        if isinstance(value, torch.Tensor):
            self.out[path] = f"{tuple(value.shape)} {value.dtype}"
            self.names(path, {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")}, depth)
        elif isinstance(value, (JITCallable, Autotuner, Heuristics)):
            found, collections = scalars(vars(value))
            self.out[path, "scalars"], self.out[path, "collections"] = found, lengths(collections)
            function = getattr(value, "fn", None)
            if isinstance(function, (JITCallable, Autotuner, Heuristics)):
                self.visit(path, function, depth + 1)
        elif isinstance(value, types.FunctionType):
            self.function(path, value, depth)
        elif isinstance(value, types.MethodType):
            self.visit(path, value.__func__, depth + 1)
            self.visit(f"{path}.__self__", value.__self__, depth + 1)
        elif isinstance(value, torch.nn.Module) or is_own(type(value)):
            self.names(path, getattr(value, "__dict__", {}), depth)
            for cls in type(value).__mro__:
                if is_own(cls):
                    self.visit(cls.__name__, cls, depth + 1)
        elif isinstance(value, type) and is_own(value):
            self.names(path, vars(value), depth)
        elif hasattr(value, "cache_info") and callable(value):
            self.out[f"{path} (a cache)"] = str(value.cache_info().currsize)

    def function(self, path, value, depth):
        if value.__module__ is None or not is_own(value):
            return
        self.names(path, value.__dict__, depth)
        self.items(f"{path} (default)", value.__defaults__ or (), depth)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                self.visit(f"{path} ({name})", cell.cell_contents, depth + 1)
            except ValueError:
                pass


def is_own(thing):
    return not str(getattr(thing, "__module__", "")).startswith(LIBRARIES)


class Frozen:
    """A clock of the first trace: it stands nearly still."""

    def __init__(self, real, step):
        self.value, self.step = real(), step

    def __call__(self):
        self.value += self.step
        return self.value


DRAWN = random.SystemRandom()


def install_clocks():
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        setattr(time, name, Frozen(getattr(time, name), DRAWN.randrange(60, 4000) * 1e-9))
    for name in ("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns"):
        setattr(time, name, Frozen(getattr(time, name), DRAWN.randrange(60, 4000)))
