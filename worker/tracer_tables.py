"""tracer_tables: what there was in the zygote: its modules' and classes' names, the
collections that they name, its functions' attributes. What stands in them since, a
candidate may have put there.
"""
import ctypes
import gc
import itertools
import sys
import types

import numpy

from tracer_words import HAS_VERSIONS, MEMORY, VERSION_AT, WORD, Words, indices, others_in, place_of

PLAIN_SCALARS = frozenset((int, str, bytes, type(None)))
SCALARS = PLAIN_SCALARS | {float, bool, complex}
HEAP_TYPE = 1 << 9      # Py_TPFLAGS_HEAPTYPE: made while the program runs


def length_place(kind):
    """Where a list or a set keeps how many things it holds."""
    words = list((ctypes.c_uint64 * (kind.__basicsize__ // WORD)).from_address(id(thing := kind(range(977)))))
    return WORD * max(i for i, word in enumerate(words) if word == len(thing))


def attributes_place():
    """Where a function keeps the address of its attributes."""
    def function():
        pass
    function.mark = None
    return place_of(function, function.__dict__)


ATTRIBUTES_AT = attributes_place()
LENGTH_AT = {kind: length_place(kind) for kind in (list, set)}


LARGE = ("sympy", "mpmath")      # whose functions' attributes nobody looks at


def names_of(module, value):
    """The attributes of an object that a module names, where it has any of its own."""
    if module.startswith(LARGE) or type(value) in (types.FunctionType, types.ModuleType):
        return None
    # What a class of its own answers does not matter.
    try:
        names = None if issubclass(type(value), type) else object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return names if type(names) is dict else None


class Tables:
    """What the modules and classes of the zygote hold, and the collections that its modules
    name."""

    PATH = "how much modules hold"

    def __init__(self):
        self.before = {}
        found, lists = {}, {}
        self.known = {id(vars(module)) for module in sys.modules.values() if isinstance(module, types.ModuleType)}
        for name, module in list(sys.modules.items()):
            if isinstance(module, types.ModuleType) and not name.startswith(("tracer", "ttir", "zygote", "wire")):
                found.setdefault(id(vars(module)), (name, vars(module)))
                for key, value in vars(module).items():
                    if type(value) is dict:
                        found.setdefault(id(value), (f"{name}.{key}", value))
                    elif (names := names_of(name, value)) is not None:
                        found.setdefault(id(names), (f"{name}.{key}", names))
                    elif type(value) in LENGTH_AT:
                        lists.setdefault(id(value) + LENGTH_AT[type(value)], (f"{name}.{key}", value))
        functions, self.classes = [], {}
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType and not str(thing.__module__).startswith(LARGE):
                functions.append(thing)
            if not issubclass(type(thing), type):
                continue
            table = gc.get_referents(thing.__dict__)[0]
            self.classes[id(thing)] = thing
            if not str(thing.__module__).startswith("tracer"):
                found.setdefault(id(table), (f"{thing.__module__}.{thing.__qualname__}", table))
        functions.sort(key=id)      # in the order of memory a look takes half the time
        self.functions = functions
        self.attributes = Words([id(f) + ATTRIBUTES_AT for f in functions])
        for i in numpy.nonzero(self.attributes.then)[0]:
            thing = functions[i]
            found.setdefault(id(thing.__dict__), (f"{thing.__module__}.{thing.__qualname__}", thing.__dict__))
        self.tables = [(*found[at], dict(found[at][1])) for at in sorted(found)]
        self.versions = Words([id(table) + VERSION_AT for _, table, _ in self.tables])
        # Lists and sets are not looked through: how long they are.
        self.lists = [lists[at] for at in sorted(lists)]
        self.at_lengths = indices(sorted(lists))

    def lengths(self):
        return MEMORY[self.at_lengths].tobytes()

    def changed(self):
        """What stands in them since."""
        for i in self.versions.others() if HAS_VERSIONS else range(len(self.tables)):
            name, table, then = self.tables[i]
            # Of the modules only new ones are looked at: a look at each would copy a page for each.
            new = (list(itertools.islice(reversed(table), max(len(table) - len(then), 0))) if table is sys.modules
                   else others_in(table, then))
            for key in new:
                value = table[key]
                # torch.compile counts what it does in numbers of its own.
                is_its = name.startswith("torch._dynamo.") and key in then and type(value) in SCALARS
                if then.get(key, self) is not value and not is_its:
                    self.before[f"{name}.{key}"] = then.get(key)
                    yield f"{name}.{key}", value

    def is_replaced(self, name, value):
        """Whether a function of torch's is another one now: others than the candidate call it."""
        then = self.before.pop(name, None)
        if name.startswith(("torch.Tensor.", "torch._tensor.Tensor.")) and then is None:
            return callable(value)       # what a tensor has had from another class
        return (name.startswith(("torch.", "builtins.")) and not name.startswith(("torch._dynamo", "torch._inductor"))
                and callable(then) and callable(value))

    def functions_with_more(self):
        """Functions that were given an attribute since."""
        return [self.functions[i] for i in self.attributes.others()]

    def name(self, before, after):
        differ = numpy.frombuffer(before, numpy.uint64) != numpy.frombuffer(after, numpy.uint64)
        return self.lists[int(numpy.nonzero(differ)[0][0])][0]


TABLES = None


def install():
    """In the zygote, when every module is there."""
    global TABLES
    TABLES = Tables()


class Mark:
    """Nothing, of which it matters alone whether it is frozen."""


class Freezes:
    """What gc.freeze() and gc.unfreeze() did. gc.get_freeze_count() would say it too, and walks
    over a million of the zygote's objects for it: a third of a verdict's time."""

    def __init__(self):
        self.old = self.young = Mark()      # the zygote freezes it with its own
        self.count = 0

    def look(self, marks):
        """(how often what was young at the last look was frozen since, whether the zygote's own are
        young again), from the marks that are young"""
        marks = set(map(id, marks))
        is_first = self.young is self.old
        self.count += not is_first and id(self.young) not in marks
        self.young = Mark()
        return self.count, id(self.old) in marks


FREEZES = Freezes()


# What a class is, whatever its own class says.
FLAGS_OF, NAMES_OF = (type.__dict__[name].__get__ for name in ("__flags__", "__dict__"))


def is_own(cls):
    """Whether a class is the candidate's: it was made since the zygote's, whatever it says of
    itself."""
    return bool(TABLES and FLAGS_OF(cls) & HEAP_TYPE and id(cls) not in TABLES.classes)
