"""tracer_seal: whether host code has changed the machinery that a real run would use, and a trace
does not.

A trace ends with a kernel's first IR. What a real run makes of it, and how it launches it, is done
by functions, tables and classes of Triton's and Python's that run in no trace, so a change there
would show nowhere. The second trace is given IR that a clean process has made, so there the front
end counts too. All of these are read once, in the zygote, and compared where a kernel is compiled
or launched and when a trace ends.

A look takes some microseconds: it is at words of memory, a function's code, defaults and closure
and the number that CPython changes whenever a dict changes. No reference is counted, so no page is
copied that a fork shares with the zygote.
"""
import _signal
import bisect
import contextlib
import ctypes
import enum
import functools
import gc
import operator
import os
import signal
import sys
import types

import triton
import triton.backends.nvidia.compiler
import triton.backends.nvidia.driver
import triton.runtime.build
import triton.runtime.cache    # sealed by its name, in LATER

from tracer_words import (HAS_VERSIONS, LOWEST, MEMORY, VERSION_AT, WORD, Words, indices, others_in, place_of,
                          version_of)

# What runs behind the first IR, and what a launch goes through.
LATER = ("triton.backends", "triton.compiler.compiler", "triton.runtime.cache", "triton.runtime.build",
         "triton.runtime.driver", "triton.runtime._allocation", "triton.knobs", "triton._C", "subprocess", "tempfile",
         "builtins", "re", "hashlib", "json", "pathlib")
# What a launch of a kernel goes through that was launched before.
LAUNCH = ("triton.backends.nvidia.driver", "triton.backends.driver", "triton.compiler.compiler",
          "triton.runtime.driver", "triton.runtime._allocation", "triton.knobs", "builtins")
# What makes the first IR of a text.
FRONT = ("triton", "builtins", "ast", "inspect", "re", "textwrap", "functools", "collections", "types", "typing",
         "dataclasses", "enum", "hashlib", "json", "operator", "contextlib", "abc", "copy", "linecache", "tokenize",
         "importlib", "string", "math", "itertools", "copyreg", "reprlib", "typing_extensions", "tracer",
         "ttir_compile")
OWN = ("tracer", "ttir_compile")
# Functions that Triton does not call: others' that a decorator of Python's has made, and Gluon's.
NOT_CALLED = ("torch", "sympy", "importlib.metadata", "functools.lru_cache.<locals>", "triton.experimental")
# Its effect is on the tape: the tracer's own stands there, and is called by what takes its place.
SEEN = {("triton", "compile"), ("triton.compiler", "compile"), ("triton.compiler.compiler", "compile")}
# What comes up by itself in a module, a class or a function.
APPEARS = {"__warningregistry__", "__annotations__"}
# Names under which nothing is that runs; a module's builtins have a seal of their own.
NOT_NESTED = {"__annotations__", "__builtins__", "__path__", "__all__", "_active"}
# Python's own, which honest host code fills too.
GROWS = {"linecache.cache", "linecache._interactive_cache", "re._cache", "re._cache2",
         "hashlib.__builtin_constructor_cache"}
# What a kernel of Triton's library remembers of its own compilations.
MEMORY_OF_KERNELS = {"hash", "used_global_vals", "device_caches", "_hash_lock", "_spec", "params"}
# Variables of the environment that choose a compiler, its parts or what it makes; the others are
# free.
ENVIRONMENT = ("TRITON_", "PTXAS", "LLVM_", "MLIR_", "DISABLE_", "NVPTX_", "LD_", "CC", "CPATH", "C_INCLUDE")
FREE = {"TRITON_CACHE_DIR", "TRITON_PRINT_AUTOTUNING", "TRITON_CACHE_AUTOTUNING", "TRITON_HOME", "TRITON_DEBUG",
        "TRITON_ALWAYS_COMPILE", "TRITON_BACKENDS_IN_TREE"}
FREE_KNOBS = {"triton.knobs.autotuning", "triton.knobs.cache"}      # they print, and name folders
FLAG_BITS_MAX = 10
LATER_SEAL = LAUNCH_SEAL = FRONT_SEAL = None
ENVIRONMENT_THEN = HANDLERS_THEN = None
LISTENERS = []       # hooks that host code has given to the interpreter
COMPILERS_NAMES = tuple(map(os.fsencode, ENVIRONMENT))
ENVIRON = type(os.environ)


def function_places():
    """Where a function keeps its code, defaults, keywords' defaults, closure and attributes."""
    cell = object()

    def function(a=(1, 2), *, b=None):
        return cell
    function.mark = None
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__, function.__closure__,
             function.__dict__)
    return [place_of(function, part) for part in parts]


def words_of(thing):
    return list((ctypes.c_uint64 * (type(thing).__basicsize__ // WORD)).from_address(id(thing)))


def first_place():
    """Where a list keeps the address of its first item's place."""
    items = [object()]
    return WORD * next(i for i, word in enumerate(words_of(items))
                       if word > LOWEST and MEMORY[indices([word])][0] == id(items[0]))


def entries_places():
    """Where a set keeps the address of its table, and the length of that less one."""
    words = words_of(few := set())
    table = next(i for i, word in enumerate(words) if id(few) < word < id(few) + set.__basicsize__)
    return WORD * table, WORD * next(i for i, word in enumerate(words[:table]) if word == 7)


FIRST_AT = first_place()
TABLE_AT, MASK_AT = entries_places()
SIZE_AT = object.__basicsize__       # where a list keeps its length
FUNCTION_PLACES = function_places()
CELL_PLACE = place_of(types.CellType(MEMORY), MEMORY)


def is_of(name, prefixes):
    """A name of these, or of what lies in a package of these; the tracer's own modules have names
    that begin alike."""
    return isinstance(name, str) and name.startswith(prefixes) and any(
        name == p or name.startswith(p if p == "tracer" else f"{p}.") for p in prefixes)


class Seal:
    """What the modules under some names were like. `things`: all functions and classes there
    are."""

    def __init__(self, prefixes, things):
        self.things = things     # kept alive: words of memory say nothing of what is gone
        self.tables = []         # (name, dict, its values then, whether a new name counts)
        self.places = []         # (address of a word, whose it is)
        self.modules = {name: m for name, m in sys.modules.items()
                        if is_of(name, prefixes) and isinstance(m, types.ModuleType)}
        own = {id(vars(m)) for m in self.modules.values()}
        for name, module in self.modules.items():
            if not name.startswith(OWN):      # what a tracer's module knows of its job changes
                self.table(name, vars(module))
                self.instances(name, module)
        for thing in things:
            if type(thing) is types.FunctionType:
                name = f"{thing.__module__}.{thing.__qualname__}"
                if id(thing.__globals__) in own and not name.startswith(NOT_CALLED):
                    self.function(thing)
            elif is_of(thing.__dict__.get("__module__"), prefixes):
                self.table(f"{thing.__module__}.{thing.__qualname__}", gc.get_referents(thing.__dict__)[0])
        self.nested(prefixes)
        # in the order of memory a look takes half the time
        self.tables.sort(key=lambda table: id(table[1]))
        self.places.sort()
        self.versions = Words([id(table[1]) + VERSION_AT for table in self.tables])
        self.words = Words([place for place, _ in self.places])
        self.modules_version = None      # of the interpreter's table of modules, when it was last looked through
        if not HAS_VERSIONS:
            self.versions.then[:] = 0      # no word has this value: each table is looked through

    def function(self, function):
        name = f"{function.__module__}.{function.__qualname__}"
        # A function without attributes has no dict, until somebody asks; nobody who runs
        # Python's own looks there.
        has_attributes = MEMORY[indices([id(function) + FUNCTION_PLACES[-1]])][0]
        is_asked = has_attributes or name.startswith("triton")
        self.places += [(id(function) + place, name) for place in FUNCTION_PLACES[:None if is_asked else -1]]
        self.places += [(id(cell) + CELL_PLACE, name) for cell in function.__closure__ or ()]
        for table in (function.__kwdefaults__, has_attributes and function.__dict__):
            if table:
                self.table(name, table)

    def nested(self, prefixes):
        """What stands in the collections, caches and objects that these name, in theirs, and so
        on."""
        # Of what the sealed tables name; what a kernel remembers may change.
        seen = {id(table) for _, table, _, _ in self.tables}
        todo = [(f"{name}.{key}", value) for name, table, _, is_strict in self.tables for key, value in table.items()
                if key not in NOT_NESTED and (is_strict or key not in MEMORY_OF_KERNELS)]
        while todo:
            name, thing = todo.pop()
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            kind = type(thing)
            if name in GROWS or thing is sys.modules:
                continue
            # Each kind by its own words; what it holds comes next.
            if isinstance(thing, dict):
                self.table(name, thing)
                todo += [(f"{name}[{key!r:.40}]", value) for key, value in thing.items()]
            elif kind in (list, tuple, set, frozenset):
                self.places += [(place, name) for place in collection_places(thing)]
                todo += [(f"{name}[...]", value) for value in thing]
            elif kind is functools._lru_cache_wrapper and name.startswith("triton"):
                self.tables += [(f"{name} (a cache)", part, dict(part), True)
                                for part in gc.get_referents(thing) if type(part) is dict]
            elif (is_of(kind.__module__, prefixes) and kind.__module__.startswith("triton") and name not in FREE_KNOBS
                    and type(getattr(thing, "__dict__", None)) is dict and id(vars(thing)) not in seen):
                self.table(name, vars(thing), is_strict=False)
                todo += [(f"{name}.{key}", value) for key, value in vars(thing).items() if key not in MEMORY_OF_KERNELS]

    def table(self, name, table, is_strict=True):
        self.tables.append((name, table, dict(table), is_strict))

    def instances(self, name, module):
        """Objects of Triton's that a module names: what they remember may grow."""
        for key, value in vars(module).items():
            if (name.startswith("triton") and f"{name}.{key}" not in FREE_KNOBS
                    and isinstance(getattr(value, "__dict__", None), dict)
                    and not isinstance(value, (types.FunctionType, types.ModuleType, type))):
                self.table(f"{name}.{key}", vars(value), is_strict=False)

    def renew(self, owner):
        """A class or a module that the tracer itself has changed since. Found by its address, in
        whose order the tables are: a look at all would count a reference to each, or take fresh
        memory."""
        own = vars(owner) if isinstance(owner, types.ModuleType) else gc.get_referents(owner.__dict__)[0]
        at = indices([id(own) + VERSION_AT])[0]
        for i in range(bisect.bisect_left(self.versions.at, at), bisect.bisect_right(self.versions.at, at)):
            then = self.tables[i][2]
            for key in others_in(own, then):
                then[key] = own[key]
            for key in others_in(then, own):
                del then[key]
            if HAS_VERSIONS:
                self.versions.keep(i)

    def broken(self):
        """What is another than it was, in words, or None."""
        other = self.words.first_other()
        if other is not None:
            return self.places[other][1]
        # A table that changed is looked through once; what it is then is what it was.
        for i in self.versions.others():
            found = changed_name(*self.tables[i])
            if found:
                return found
            if HAS_VERSIONS:
                self.versions.keep(i)
        if HAS_VERSIONS and version_of(sys.modules) == self.modules_version:
            return None
        found = next((name for name in others_in(self.modules, sys.modules) if not name.startswith(OWN)), None)
        self.modules_version = None if found or not HAS_VERSIONS else version_of(sys.modules)
        return found


def collection_places(thing):
    """The words that say what is in a list or a set; the others do not change."""
    at = id(thing)
    if type(thing) is list:
        first = int(MEMORY[indices([at + FIRST_AT])][0])
        return [at + SIZE_AT, at + FIRST_AT, *(first + WORD * i for i in range(len(thing)))]
    if type(thing) is set:
        table, mask = (int(word) for word in MEMORY[indices([at + TABLE_AT, at + MASK_AT])])
        return [at + TABLE_AT, at + MASK_AT, *(table + WORD * i for i in range(2 * (mask + 1)))]
    return []


def changed_name(name, table, then, is_strict):
    """The first name in a dict that means something else; modules that were imported since are
    none."""
    free = () if is_strict else MEMORY_OF_KERNELS
    for key in others_in(table, then):
        if key in free or key in APPEARS:
            continue
        if key not in then and not isinstance(table[key], types.ModuleType):
            return f"{name}.{key}"
        if key in then and (name, key) not in SEEN:
            return f"{name}.{key}"
    missing = [key for key in others_in(then, table) if key not in table]
    return f"{name}.{missing[0]}" if missing else None


def is_compilers(name):
    """A variable that chooses what compiles."""
    return name.startswith(ENVIRONMENT) and name not in FREE


def environment():
    """The variables that choose what compiles, as os.environ keeps them, in bytes."""
    if type(os.environ) is ENVIRON:
        return {name: value for name, value in os.environ._data.items()
                if name.startswith(COMPILERS_NAMES) and is_compilers(os.fsdecode(name))}
    return {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items() if is_compilers(name)}


def handlers():
    """What the interpreter calls by itself, at moments that a trace does not choose: lists of it,
    and when it does."""
    timers = [signal.getitimer(which) for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]
    # signal.getsignal() would look for a name of each.
    of_signals = list(map(_signal.getsignal, range(1, signal.NSIG)))
    return [of_signals, [sys.gettrace(), sys.getprofile()], list(gc.callbacks), list(sys.meta_path),
            list(sys.path_hooks)], timers


def are_handlers_other():
    """Whether one of them is another object now, whatever it says that it equals."""
    (lists, timers), (lists_then, timers_then) = handlers(), HANDLERS_THEN
    return timers != timers_then or not all(len(now) == len(then) and all(map(operator.is_, now, then))
                                            for now, then in zip(lists, lists_then))


def make_flags(things):
    """A class of flags keeps each combination that anybody has asked for (re.VERBOSE | re.I). All
    there can be are made before the seal, or the first to ask would break it."""
    for thing in things:
        if isinstance(thing, enum.EnumMeta) and issubclass(thing, enum.Flag) and is_of(thing.__module__, LATER + FRONT):
            bits = [m.value for m in thing]
            # One without members (enum.Flag itself) would make a new class of it.
            for number in range(1 << len(bits) if 0 < len(bits) <= FLAG_BITS_MAX else 0):
                with contextlib.suppress(ValueError):
                    thing(sum(bit for i, bit in enumerate(bits) if number >> i & 1))


def install():
    """In the zygote, when everything is in its place."""
    global LATER_SEAL, LAUNCH_SEAL, FRONT_SEAL, ENVIRONMENT_THEN, HANDLERS_THEN
    add = sys.addaudithook

    def addaudithook(hook):
        LISTENERS.append(hook)
        add(hook)
    sys.addaudithook = addaudithook
    # What is garbage by now goes here and not behind the look, where it would seem to change. What
    # is sealed stays alive, whoever forgets it.
    gc.collect()
    things = []
    for thing in gc.get_objects():      # a comprehension would be a function among them, and gone
        if issubclass(type(thing), (types.FunctionType, type)):
            things.append(thing)
    make_flags(things)
    LATER_SEAL, LAUNCH_SEAL, FRONT_SEAL = (Seal(prefixes, things) for prefixes in (LATER, LAUNCH, FRONT))
    ENVIRONMENT_THEN, HANDLERS_THEN = environment(), handlers()


def begin(*owners):
    """In the job's process, before the candidate: hooks that are there by then, and what these
    classes and modules hold, are the tracer's own."""
    LISTENERS.clear()
    for owner in owners:
        for seal in (LATER_SEAL, LAUNCH_SEAL, FRONT_SEAL):
            seal.renew(owner)


def broken_later(is_again=False):
    """At a launch: whether what a real run does there is what it was, or in words what is not. The
    first launch of a kernel also loads it and makes its launcher, one again does not. Before the
    seals are made, nothing is broken."""
    seal = LAUNCH_SEAL if is_again else LATER_SEAL
    return seal and seal.broken()


def broken_front():
    """Where an IR shall be used again: whether the front end would make the same."""
    return FRONT_SEAL and FRONT_SEAL.broken()


def broken():
    """Where a kernel is compiled and where a trace ends: also whether something would be called at
    other moments."""
    if LATER_SEAL and environment() != ENVIRONMENT_THEN:
        return "the environment"
    if LATER_SEAL and (LISTENERS or are_handlers_other()):
        return "what the interpreter calls by itself (signals, hooks, tracing)"
    return broken_later()
