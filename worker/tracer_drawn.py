"""tracer_drawn: what a process tells host code, as values that know where they are from
(docs/verifier.md, "What belongs to the process").

In the second trace an identity, a hash, a clock, a number of the process are no numbers but objects
of the class Drawn. They may be kept, printed, compared with themselves, used as a key and computed
with, which makes another such object. Where one would decide something (a branch, an index, a whole
number, an argument of a launch or of torch's) the candidate is refused, and what it was called is
named: no draw has to show the dependence.

What is written in C looks at its arguments in ways that no method of a class hears of: host code's
calls of that are looked at one by one (tracer_rewrite.py).
"""
import datetime
import os
import sys
import types
import weakref

import torch

import tracer_driver
import tracer_value
from tracer_record import SOURCE_NAME

CALL = "<call>"              # the file of what stands between host code and what it calls
HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = {}                  # the names of the candidate's module
DEPTH = 4                    # of containers that are looked through
FILES = {SOURCE_NAME, CALL}  # of what the candidate has written
ADDRESS = " at 0x"           # what Python writes of an object that has nothing else to say
DECIDES = ("host code decides by {}, which belongs to the process and not to the task: it may be kept, printed, "
           "compared with itself and used as a key, but nothing may depend on it")


NAMES = ("__name__", "__qualname__", "__module__")


class Facts:
    """What is known of a drawn value. source: what it was asked by, in words. kind: the class that
    it stands for, None where nobody can say. key: what it is equal by; None: it is equal to itself
    alone. low, high: bounds that it always keeps. step, rest: it is `rest` modulo `step`. plain:
    the number, of what a launch may get. life: of an address or an identity, what has it (Life):
    what is made once that is gone may get the same one."""

    __slots__ = ("source", "kind", "key", "low", "high", "step", "rest", "plain", "life")

    def __init__(self, source, kind, key, low, high, step, rest, plain, life):
        self.source, self.kind, self.key = source, kind, key
        self.low, self.high, self.step, self.rest, self.plain = low, high, step, rest, plain
        self.life = life


class Life:
    """What has an address or an identity. name: equal for the same thing alone; is_over(): whether
    it is gone; turn: which one this is of all that were asked for. is_memory: a tensor's. Tables by
    objects are left alone: both traces give objects the identities that Python gives them."""

    __slots__ = ("name", "is_over", "kept", "turn", "is_memory")
    count = 0

    def __init__(self, name, is_over, kept=None, is_memory=False):
        Life.count += 1
        self.name, self.is_over, self.kept, self.turn, self.is_memory = name, is_over, kept, Life.count, is_memory


def is_sure(mine, theirs):
    """Whether the keys of two values say if these are equal: what is gone may have left its address
    to what was asked for later."""
    a, b = mine.life, theirs.life
    if a is None or b is None or a.name == b.name or not a.is_memory and mine.key == theirs.key:
        return True
    return not (a if a.turn < b.turn else b).is_over()


class Drawn:
    """A value of the process."""

    __slots__ = ("facts",)

    def __getattribute__(self, name):
        kind = facts_of(self).kind
        if name == "__class__":
            return refuse(self) if kind is None and is_asked() else kind or Drawn
        if kind is None and name in NAMES:
            return derived((self,), str)
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        if name.startswith("_") or kind is not None and name not in dir(kind):
            raise AttributeError(f"{kind.__name__ if kind else 'object'!r} object has no attribute {name!r}")
        return derived((self,))

    def __setattr__(self, name, value): refuse(self)
    def __call__(self, *args, **kwargs): return derived((self,))
    def __deepcopy__(self, memo): return self
    def __copy__(self): return self

    def __hash__(self):
        facts = facts_of(self)
        # Addresses of memory have one hash, so that a table asks whether they are equal.
        is_memory = facts.life is not None and facts.life.is_memory
        return refuse(self) if facts.key is None else hash(("drawn", facts.key[0] if is_memory else facts.key))

    def __eq__(self, other):
        mine = facts_of(self)
        if other is self:
            return True
        if type(other) is Drawn:
            # Other ways to ask give other things; what was computed may be equal by chance.
            theirs = facts_of(other)
            if (mine.key is not None and theirs.key is not None and mine.key[0] == theirs.key[0]
                    and is_sure(mine, theirs)):
                return mine.key == theirs.key
        elif other is None or type(other) in (int, float) and is_outside(mine, other):
            return False
        return derived((self, other), bool)

    def __ne__(self, other):
        found = self == other
        return found if type(found) is Drawn else not found

    def __mod__(self, other):
        facts = facts_of(self)
        if facts.kind is int and type(other) is int and other > 0 and facts.step % other == 0:
            return facts.rest % other
        return derived((self, other))

    def __and__(self, other):
        facts = facts_of(self)
        if facts.kind is int and type(other) is int and 0 <= other < facts.step & -facts.step:
            return facts.rest & other
        return derived((self, other))

    def __add__(self, other): return moved(self, other, 1)
    __radd__ = __add__

    def __sub__(self, other):
        mine, theirs = facts_of(self), facts_of(other) if type(other) is Drawn else None
        is_address = theirs and mine.kind is int and mine.plain is not None and theirs.plain is not None
        if is_address and mine.key[:2] == theirs.key[:2]:
            return mine.plain - theirs.plain
        return moved(self, other, -1)


facts_of, FACTS_INTO = Drawn.__dict__["facts"].__get__, Drawn.__dict__["facts"].__set__


def drawn(source, kind=int, key=None, low=None, high=None, step=1, rest=0, plain=None, life=None):
    """A new one. What has no key is equal to itself alone."""
    value = object.__new__(Drawn)
    FACTS_INTO(value, Facts(source, kind, key, low, high, step, rest, plain, life))
    return value


def derived(operands, kind=None, key=None):
    """What is computed from a drawn value and others."""
    first = next(v for v in operands if type(v) is Drawn)
    for value in operands:
        if TYPE(value) is not Drawn and isinstance(value, torch.Tensor):
            refuse(first)
    return drawn(facts_of(first).source, kind, key)


def moved(value, by, sign):
    """An address further on is one of the same memory."""
    facts = facts_of(value)
    if facts.plain is None or facts.kind is not int or type(by) is not int:
        return derived((value, by), facts.kind if facts.kind in (int, float, str) else None)
    by *= sign
    return drawn(facts.source, int, (*facts.key[:2], facts.key[2] + by), None, None, facts.step,
                 (facts.rest + by) % facts.step, facts.plain + by, facts.life)


def is_outside(facts, number):
    """Whether a number is none that this value could be."""
    return (facts.low is not None and number < facts.low or facts.high is not None and number > facts.high
            or facts.low is not None and facts.step > 1 and number % facts.step != facts.rest)


def compared(name, is_less, is_equal):
    """A comparison, which the bounds of a value may answer for certain."""
    def method(self, other):
        facts = facts_of(self)
        if type(other) in (int, float):
            if facts.low is not None and (other < facts.low or other == facts.low and is_less != is_equal):
                return not is_less
            if facts.high is not None and (other > facts.high or other == facts.high and is_less == is_equal):
                return is_less
        return derived((self, other), bool)
    return method


def refuse(value, *args):
    """Whoever gets here lets a drawn value decide."""
    if facts_of(value).source is tracer_value.SOURCE:
        tracer_driver.RECORDER.fail("data-dependent", tracer_value.DECIDES)
    return refused(DECIDES.format(facts_of(value).source))


def refused(text):
    if tracer_driver.RECORDER is None:
        raise TypeError(text)
    tracer_driver.RECORDER.fail("unsupported", text)


# What gives another value of the process, and what would tell one.
for _name in ("mul", "truediv", "floordiv", "divmod", "pow", "lshift", "rshift", "or", "xor", "matmul"):
    setattr(Drawn, f"__{_name}__", lambda self, *others: derived((self, *others)))
for _name in ("sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor"):
    setattr(Drawn, f"__r{_name}__", lambda self, *others: derived((self, *others)))
for _name in ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc", "getitem"):
    setattr(Drawn, f"__{_name}__", lambda self, *others: derived((self, *others)))
for _name, _less, _equal in (("lt", True, False), ("le", True, True), ("gt", False, False), ("ge", False, True)):
    setattr(Drawn, f"__{_name}__", compared(_name, _less, _equal))
for _name in ("bool", "index", "int", "float", "complex", "str", "repr", "format", "bytes", "len", "iter", "next",
              "contains", "fspath", "enter", "exit", "setitem", "delitem", "reduce_ex", "reduce", "sizeof", "dir"):
    setattr(Drawn, f"__{_name}__", refuse)


# ---- who asks ----

def is_asked():
    """Whether the candidate's host code has called the function that asks this, itself or through a
    function of C; libraries get plain values."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename in FILES or frame.f_globals is MODULE


def told(real, source, kind=int, is_kept=False, is_one=lambda args: True, **bounds):
    """A function that tells the candidate a drawn value where it told the number. `is_kept`: it is
    the same whenever it is asked; `is_one`: of which arguments."""
    def tell(*args, **kwargs):
        if is_asked() and is_one(args):
            return drawn(source, kind, (source, *args) if is_kept and is_fixed(args) else None, **bounds)
        return real(*args, **kwargs)
    tell.__name__ = tell.__qualname__ = getattr(real, "__name__", "call")
    tell.__module__ = getattr(real, "__module__", None)
    stand_for(real, tell)
    return tell


def unasked(real, source):
    """A function that the candidate may not call: no value that it could answer hides what it
    says."""
    def ask(*args, **kwargs):
        return refused(DECIDES.format(source)) if is_asked() else real(*args, **kwargs)
    ask.__name__ = ask.__qualname__ = real.__name__
    ask.__module__ = real.__module__
    stand_for(real, ask)
    return ask


def stand_for(real, answer):
    """Host code that has got hold of the one calls the other."""
    INSTEAD[id(real)] = (real, answer)


INSTEAD = {}      # identity of a function of Python's -> (the function, what host code calls in its place)


def is_ours(f):
    """A function of the tracer's looks itself for who asks."""
    code = getattr(f, "__code__", None)
    return code is not None and code.co_filename.startswith(HERE)


def is_fixed(value):
    """Whether a hash is the same in every process."""
    kind = type(value)
    return kind in (int, bool) or kind in (float, complex) and value == value or kind in (tuple, torch.Size) and all(
        map(is_fixed, value))


def identity(value):
    return drawn("id()", int, ("id", IDENTITY(value)), 1, None, 8, life=life_of(value))


def life_of(value):
    """Of what takes no weak reference (a list, a number) nobody knows whether it is gone; of what
    stays as long as the process (a class, a function, a module) everybody."""
    if isinstance(value, (TYPE, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)) or value is None:
        return None
    try:
        reference = weakref.ref(value)
    except TypeError:
        return Life(IDENTITY(value), lambda: True)
    return Life(IDENTITY(reference), lambda: reference() is None, reference)


def hash_of(value):
    if is_fixed(value):
        return HASH(value)
    if type(value) is Drawn:
        key = facts_of(value).key
        return refuse(value) if key is None else drawn(facts_of(value).source, int, ("hash", key),
                                                       life=facts_of(value).life)
    life = life_of(value) if TYPE(value).__hash__ is object.__hash__ else None
    return drawn("the hash of a text or an object", int, ("hash", HASH(value)), life=life)


IDENTITY, HASH, TYPE, DATE = id, hash, type, datetime.date      # as they are before a trace has its own


LIVES = []      # of a storage, as the second trace's tensors have them (tracer_plain.py)


def address_of(address, base, step, life):
    """What data_ptr() is to host code: its alignment is a fact of the task."""
    if not address:
        return address
    return drawn("the address of a tensor", int, ("address", base, address - base), 1, None, step, address % step,
                 address, life)


def first_drawn(values, depth=DEPTH, kinds=(Drawn,)):
    """A drawn value among these or in the containers among them, or None."""
    for value in values:
        kind = TYPE(value)
        if kind in kinds:
            return value
        found = None
        if kind in (list, tuple, set, frozenset) and depth:
            found = first_drawn(value, depth - 1, kinds)
        elif kind is dict and depth:
            found = first_drawn((*value.values(), *value), depth - 1, kinds)
        if found is not None:
            return found
    return None


# ---- texts ----

def text_of(value, how=str, spec=""):
    """str() and its kin; what holds an address of an object is drawn."""
    if type(value) is Drawn:
        key = facts_of(value).key
        text = derived((value,), str, None if spec or key is None else ("text", how.__name__, key))
        facts_of(text).life = facts_of(value).life
        return text
    if TYPE(value) is types.ModuleType and how is not format:
        return drawn("the text of a module, which has its place", str, ("text", id(value)))
    return checked_text(format(value, spec) if how is format else how(value))


def checked_text(text):
    if ADDRESS in text:
        return drawn("the text of an object, which has its address", str, ("text", text))
    return text


def joined(*parts):
    """An f-string's parts."""
    if any(type(p) is Drawn for p in parts):
        keys = tuple(facts_of(p).key if type(p) is Drawn else p for p in parts)
        return derived(parts, str, None if None in keys else ("text", keys))
    return "".join(parts)


def formatted(value, conversion, spec=""):
    if conversion in (ord("s"), ord("r"), ord("a")):
        value = text_of(value, {"s": str, "r": repr, "a": ascii}[chr(conversion)])
        if not spec:
            return value
    if type(spec) is Drawn:
        return derived((spec,), str)
    return text_of(value, format, spec)


def remainder(left, right):
    """`%`, of texts too."""
    if type(left) is str:
        found = first_drawn((right,))
        return derived((found,), str) if found is not None else checked_text(left % right)
    return left % right
