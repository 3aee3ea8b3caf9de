"""tracer_drawn: what a process tells host code, as values that know where they are from
(docs/verifier.md, "What belongs to the process").

In the second trace an identity, a hash, a clock, a number of the process are no numbers but objects
of the class Drawn. They may be kept, printed, compared with themselves, used as a key and computed
with, which makes another such object. Where one would decide something (a branch, an index, a whole
number, an argument of a launch or of torch's) the candidate is refused, and what it was called is
named: no draw has to show the dependence.

What is written in C looks at its arguments in ways that no method of a class hears of. So the
candidate's host code is rewritten here: each of its calls asks `given` for what it calls, and
functions that are not its own get no Drawn but by a rule of this file. Values stay what they are.
"""
import ast
import builtins
import collections
import collections.abc
import datetime
import functools
import operator
import os
import random
import sys
import types
import warnings

import torch

import tracer_driver
import tracer_sites
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


class Facts:
    """What is known of a drawn value. source: what it was asked by, in words. kind: the class that
    it stands for, None where nobody can say. key: what it is equal by; None: it is equal to itself
    alone. low, high: bounds that it always keeps. step, rest: it is `rest` modulo `step`. plain:
    the number, of what a launch may get."""

    __slots__ = ("source", "kind", "key", "low", "high", "step", "rest", "plain")

    def __init__(self, source, kind, key, low, high, step, rest, plain):
        self.source, self.kind, self.key = source, kind, key
        self.low, self.high, self.step, self.rest, self.plain = low, high, step, rest, plain


class Drawn:
    """A value of the process."""

    __slots__ = ("facts",)

    def __getattribute__(self, name):
        kind = facts_of(self).kind
        if name == "__class__":
            return refuse(self) if kind is None and is_asked() else kind or Drawn
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
        key = facts_of(self).key
        return refuse(self) if key is None else hash(("drawn", key))

    def __eq__(self, other):
        mine = facts_of(self)
        if other is self:
            return True
        if type(other) is Drawn:
            # Other ways to ask give other things; what was computed may be equal by chance.
            theirs = facts_of(other)
            if mine.key is not None and theirs.key is not None and mine.key[0] == theirs.key[0]:
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


def drawn(source, kind=int, key=None, low=None, high=None, step=1, rest=0, plain=None):
    """A new one. What has no key is equal to itself alone."""
    value = object.__new__(Drawn)
    FACTS_INTO(value, Facts(source, kind, key, low, high, step, rest, plain))
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
                 (facts.rest + by) % facts.step, facts.plain + by)


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


def stand_for(real, answer):
    """Host code that has got hold of the one calls the other."""
    INSTEAD[id(real)] = (real, answer)


INSTEAD = {}      # identity of a function of Python's -> (the function, what host code calls in its place)


def is_fixed(value):
    """Whether a hash is the same in every process."""
    kind = type(value)
    return kind in (int, bool) or kind in (float, complex) and value == value or kind in (tuple, torch.Size) and all(
        map(is_fixed, value))


def identity(value):
    return drawn("id()", int, ("id", IDENTITY(value)), 1, None, 8)


def hash_of(value):
    if is_fixed(value):
        return HASH(value)
    if type(value) is Drawn:
        key = facts_of(value).key
        return refuse(value) if key is None else drawn(facts_of(value).source, int, ("hash", key))
    return drawn("the hash of a text or an object", int, ("hash", HASH(value)))


IDENTITY, HASH, TYPE, DATE = id, hash, type, datetime.date      # as they are before a trace has its own


def own_builtins():
    """What the candidate's module finds for `__builtins__`."""
    return dict(vars(builtins), id=identity, hash=hash_of)


def address_of(address, base, step):
    """What data_ptr() is to host code: its alignment is a fact of the task."""
    if not address:
        return address
    return drawn("the address of a tensor", int, ("address", base, address - base), 1, None, step, address % step,
                 address)


# ---- texts ----

def text_of(value, how=str, spec=""):
    """str() and its kin; what holds an address of an object is drawn."""
    if type(value) is Drawn:
        key = facts_of(value).key
        return derived((value,), str, None if spec or key is None else ("text", how.__name__, key))
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


# ---- calls ----

# What looks at the names of its caller.
FRAMED = frozenset(map(id, (super, locals, globals, vars, dir, sys._getframe, breakpoint, __build_class__)))
# Functions that hold, find or compare values and do not look into them: called as they are.
NOT_HELD = ("index", "truth", "length_hint", "call", "indexOf", "countOf")
HOLDERS = frozenset(map(id, (
    list, tuple, dict, set, frozenset, isinstance, setattr, getattr, hasattr, callable, iter, next, zip, enumerate,
    reversed, sorted, min, max, any, all, collections.deque, collections.OrderedDict, collections.defaultdict,
    types.SimpleNamespace, *(f for name, f in vars(operator).items()
                             if type(f) is types.BuiltinFunctionType and name not in NOT_HELD))))
HELD = (list, tuple, dict, set, frozenset, collections.deque, type({}.keys()), type({}.items()), type({}.values()))
# Functions whose result is made of their arguments and of nothing else, and what it is.
MAKERS = {IDENTITY(f): kind for f, kind in (
    (int, int), (float, float), (complex, complex), (bool, bool), (hex, str), (oct, str), (bin, str), (chr, str),
    (bytes, bytes), (len, int), (ord, int), (abs, None), (round, None), (divmod, None), (pow, None), (sum, None))}
MAKING_MODULES = ("math", "cmath", "time", "datetime", "posixpath", "decimal", "fractions", "statistics")
MAKING_CLASSES = (int, float, datetime.date, datetime.timedelta)
TEXTS = {IDENTITY(str): str, IDENTITY(repr): repr, IDENTITY(ascii): ascii}
SLOTS = (types.MethodWrapperType, types.WrapperDescriptorType)
OF_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType, *SLOTS)
NAMED = (*OF_C, types.MethodType, types.FunctionType)
# Functions that show in which order a set holds its things.
ORDER = frozenset(map(id, (list, tuple, iter, zip, map, filter, enumerate, str, repr, collections.deque,
                           dict.fromkeys, collections.OrderedDict)))
SET_METHODS = ("pop", "__iter__", "__reduce__", "__repr__", "__str__")
# Functions of libraries that are there to tell a process from others.
TELLERS = frozenset((("uuid", "uuid1"), ("uuid", "uuid4"), ("uuid", "getnode"), ("getpass", "getuser"),
                     ("platform", "node"), ("platform", "platform"), ("platform", "uname"), ("platform", "release"),
                     ("platform", "version"), ("tempfile", "gettempdir"), ("tempfile", "mktemp")))
# Functions in C that tell what belongs to the process: how much room an object has beyond what it
# holds, how many nodes torch's graphs had so far, who listens to torch's dispatcher.
ROOM = ("getsizeof", "__sizeof__", "__alloc__", "_get_sequence_nr", "_sequence_nr", "_dispatch_tls_local_include_set",
        "_dispatch_tls_local_exclude_set", "_dispatch_tls_is_dispatch_key_included",
        "_dispatch_tls_is_dispatch_key_excluded")


def given(f):
    """What host code calls where its text calls `f`."""
    kind = type(f)
    inner = (f.__func__ if kind is types.MethodType
             else getattr(f, "__wrapped__", f) if kind is functools._lru_cache_wrapper else f)
    if TYPE(inner) is types.FunctionType and inner.__globals__ is MODULE:
        return f
    if kind is types.FunctionType and is_ours(f):
        return f
    if id(f) in FRAMED or kind is Drawn or is_own(f if issubclass(kind, type) else kind):
        return f
    instead = INSTEAD.get(id(f))
    if instead:
        return instead[1]
    if f is IDENTITY or f is HASH:
        return identity if f is IDENTITY else hash_of
    return types.MethodType(CALLER, f)


def is_ours(f):
    """A function of the tracer's looks itself for who asks."""
    code = getattr(f, "__code__", None)
    return code is not None and code.co_filename.startswith(HERE)


def is_own(cls):
    return getattr(cls, "__module__", None) == MODULE.get("__name__")


def before(f, args, kwargs):
    """What a function that is not the candidate's own answers, where that is not its own answer:
    (answer,), or None."""
    # By name or class: what tells something of the process whatever it is given.
    kind = type(f)
    owner = getattr(f, "__self__", None) if kind in NAMED else None
    if type(owner) is Drawn:
        return None
    name = f.__name__ if kind in NAMED else ""
    found = by_name(f, kind, owner, name, args, kwargs) if name else None
    if found is None and issubclass(kind, type) and issubclass(f, RANDOM) and all(a is None for a in args):
        refused_draw()
    if f is torch.Generator and any(str(a).startswith("cuda") for a in (*args, *kwargs.values())):
        refused("host code makes a generator on the GPU, and a trace has none: make it on the CPU")
    if found is None and is_seeded(f, args, kwargs):
        found = f(*args, **kwargs),
    if found is None and (f is eval or f is exec or f is compile) and args:
        found = run_text(f, args, kwargs)
    if found is not None:
        return found
    # By argument: sets that show their order, and drawn values.
    for thing in args:
        if isinstance(thing, (set, frozenset)) and (id(f) in ORDER or name == "join" or kwargs and f in (min, max)):
            ordered(thing)
    value = PARAMETER[0](args[0]) if f is float and args and isinstance(args[0], torch.Tensor) else None
    if value is not None:
        return value,
    value = first_drawn((*args, *kwargs.values()) if kwargs else args, DEPTH, (Drawn, tracer_value.Value))
    if TYPE(value) is tracer_value.Value:
        value.refuse()
    return None if value is None else with_drawn(f, kind, owner, name, value, args, kwargs)


PARAMETER = [lambda t: None]     # the value of a tensor that is a parameter's element, drawn, or None


def is_seeded(f, args, kwargs):
    """Whether this makes one of numpy's older generators from a seed: it draws one of its own
    first, which it forgets then."""
    seed = args[0] if args else kwargs.get("seed")
    return (isinstance(f, type) and f.__name__ == "RandomState" and f.__module__.startswith("numpy.random")
            and seed is not None and first_drawn((seed,)) is None)


def by_name(f, kind, owner, name, args, kwargs):
    if kind is types.FunctionType and (f.__module__, name) in TELLERS:
        return drawn(f"{f.__module__}.{name}()", None),
    if name in ROOM and kind in NAMED and not is_ours(f):
        return drawn(f"{name}()", None),
    if name == "__hash__" and kind in SLOTS:
        thing = args[0] if args else owner
        return (identity(thing) if getattr(f, "__objclass__", None) is object else hash_of(thing)),
    if name in ("now", "utcnow", "today") and isinstance(owner, type) and issubclass(owner, DATE):
        return drawn(f"{owner.__name__}.{name}()", owner),
    if name in ("data_ptr", "_data_ptr") and not args and kind is not types.FunctionType and not is_ours(f):
        address = f()
        return (address_of(address, address, 1) if type(address) is int else address),
    # Orders and generators.
    if name in SET_METHODS and isinstance(owner, (set, frozenset)):
        ordered(owner)
    if owner is not None and id(owner) in GENERATORS:
        draws(owner, name, args)
    if f is warnings.warn and first_drawn(args) is None:
        return warned(*args, **kwargs),
    if f is torch.manual_seed:
        GENERATORS.pop(id(torch.default_generator), None)
    if name == "seed" and isinstance(owner, torch.Generator) or f is torch.seed or (
            f is torch.initial_seed and id(torch.default_generator) in GENERATORS):
        refused_draw()
    return None


def with_drawn(f, kind, owner, name, value, args, kwargs):
    """A call with a drawn value among its arguments."""
    is_direct = any(type(a) is Drawn for a in (*args, *kwargs.values()))
    of = getattr(f, "__objclass__", None) if kind in OF_C else None
    module = str(getattr(f, "__module__", None))
    # What says something of its class, and what writes it down.
    if f is type:
        return (args[0].__class__,) if type(args[0]) is Drawn else None
    if id(f) in TEXTS:
        return (text_of(args[0], TEXTS[id(f)]) if type(args[0]) is Drawn else derived((value,), str)),
    if f is format or isinstance(owner, str) or of is str:
        return derived((value,), str if name in ("join", "format", "__add__", "__format__", "replace") else None),
    if f is print or f is warnings.warn or module == "logging":
        return None,
    # Containers and what only looks for equal ones; what is thrown; arithmetic.
    if id(f) in HOLDERS:
        return refuse(value) if f in (getattr, setattr, hasattr) and first_drawn(args[1:2], 0) is not None else None
    if kind in OF_C and (isinstance(owner, HELD) or of in HELD) or isinstance(owner, collections.abc.MutableMapping):
        return None
    if issubclass(kind, type) and issubclass(f, BaseException):
        return None
    if id(f) in MAKERS:
        return (derived((value,), MAKERS[id(f)]),) if is_direct else None
    if of in (int, float) or module in MAKING_MODULES or isinstance(owner, MAKING_CLASSES):
        return derived((value,)),
    # A launch gets the address of memory that is on its tape.
    if module.startswith("triton.runtime"):
        args, kwargs = tuple(map(plain_address, args)), {k: plain_address(v) for k, v in kwargs.items()}
        if first_drawn((*args, *kwargs.values())) is None:
            return f(*args, **kwargs),
    return refuse(value)


def plain_address(value):
    return facts_of(value).plain if type(value) is Drawn and facts_of(value).plain is not None else value


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


# The wrapper is a function of the candidate's to whoever looks at frames' names.
CALL_TEXT = """
def call(f, /, *args, **kwargs):
    found = before(f, args, kwargs)
    if found is not None:
        return found[0]
    found = f(*args, **kwargs)
    return checked_text(found) if type(found) is str else found
"""
_names = {"__name__": "candidate", "before": before, "checked_text": checked_text, "type": type, "str": str}
exec(compile(CALL_TEXT, CALL, "exec"), _names)
CALLER = _names.pop("call")


def run_text(f, args, kwargs):
    """eval, exec and compile: their text is rewritten like the candidate's own."""
    text, frame = args[0], sys._getframe(3)
    is_text = isinstance(text, (str, bytes, ast.AST))
    if f is compile:
        name = args[1] if len(args) > 1 else kwargs.get("filename", CALL)
        FILES.add(name := CALL if name == "<string>" else name)
        return rewritten(text, name, args[2] if len(args) > 2 else kwargs.get("mode", "exec")),
    names = [*args[1:], *kwargs.values()] or [frame.f_globals, frame.f_locals]
    return f(rewritten(text, CALL, f.__name__) if is_text else text, *names),


# ---- what was thrown ----

def caught():
    """Where host code takes hold of an exception: its traceback is what it is elsewhere."""
    error, seen = sys.exc_info()[1], []
    if isinstance(error, RecursionError):
        refused("host code runs out of the stack and goes on: how deep it is belongs to the process")
    while error is not None and not any(error is e for e in seen):
        seen.append(error)
        error.__traceback__ = as_elsewhere(error.__traceback__)
        error = error.__cause__ or error.__context__


def as_elsewhere(step):
    """A traceback without what stands between host code and libraries; what that, or a function of
    C's, calls to answer is there in a trace alone."""
    steps, is_hidden = [], False
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name == CALL or name.startswith(HERE):
            is_hidden = name != CALL or isinstance(step.tb_frame.f_locals.get("f"), OF_C)
        elif name in FILES or not is_hidden:
            is_hidden = False
            steps.append(step)
        step = step.tb_next
    for one, behind in zip(steps, (*steps[1:], None)):
        one.tb_next = behind
    return steps[0] if steps else None


def warned(message, category=None, stacklevel=1, source=None, **kwargs):
    """By host code: this, `by_name`, `before` and `call` stand between."""
    return warnings.warn(message, category, stacklevel + 4, source, **kwargs)


# ---- orders and generators ----

def ordered(things):
    """Where host code goes through a set: its order belongs to the process."""
    if isinstance(things, (set, frozenset)) and len(things) > 1 and not all(map(is_fixed, things)):
        refused("host code goes through a set of texts or objects, whose order belongs to the process and not to the "
                "task: sort it, or keep a list")
    return things


GENERATORS = {}      # identity of a generator that nobody has seeded -> (it, how its state is read, its state)
RANDOM = random.Random.__mro__[1]


def watch_generators():
    """Before the candidate's first line."""
    found = [(random._inst, random._inst.getstate), (torch.default_generator, lambda: bytes(
        torch.default_generator.get_state().numpy()))]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        legacy = numpy.random.mtrand._rand
        found.append((legacy, lambda: [v.tobytes() if hasattr(v, "tobytes") else v for v in legacy.get_state()]))
    for generator, state in found:
        GENERATORS[id(generator)] = (generator, state, state())


def draws(generator, name, args):
    """A method of a generator of the process is called."""
    if name in ("seed", "setstate", "set_state") and args and args[0] is not None:
        del GENERATORS[id(generator)]
    elif name not in ("getstate", "get_state"):
        refused_draw()


def refused_draw():
    refused("host code draws from a generator of random numbers that it has not seeded: what it does may not depend "
            "on chance")


def check_generators(is_seeded):
    """When a phase ends: whether one was drawn from. is_seeded: torch's is, from here on."""
    for generator, state, then in list(GENERATORS.values()):
        if state() != then:
            refused_draw()
    if is_seeded:
        GENERATORS.pop(id(torch.default_generator), None)


# ---- the text ----

class Rewriter(ast.NodeTransformer):
    """Puts `given` and its kin into host code; what a kernel's function holds stays what it is."""

    def __init__(self, mark):
        self.mark = mark

    def ask(self, name, node, *args):
        made = ast.Call(ast.Attribute(ast.Constant(self.mark), name, ast.Load()), list(args), [])
        for part in (made, made.func, made.func.value):
            ast.copy_location(part, node)
        return made

    def visit_FunctionDef(self, node):
        """What a kernel's function holds stays what it is, and so do
        annotations: they may be texts."""
        if tracer_sites.is_jitted(node):
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
            return node
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        if node.name in ("__exit__", "__aexit__"):
            node.body = self.catching(node.body[0], node.body)
        return node

    def visit_arg(self, node):
        return node

    def visit_AnnAssign(self, node):
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_Call(self, node):
        function = node.func
        is_starred = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
        is_super = isinstance(function, ast.Name) and function.id == "super"
        self.generic_visit(node)
        if is_super:
            return node
        node.func = self.ask("given", function, node.func)
        # Python says of a method's call that it stands in the line of the method's name.
        if isinstance(function, ast.Attribute) and not is_starred and function.end_lineno != node.lineno:
            node.lineno, node.col_offset = function.end_lineno, 0
        return node

    def visit_JoinedStr(self, node):
        parts = []
        for value in node.values:
            if isinstance(value, ast.Constant):
                parts.append(value)
                continue
            spec = [self.visit(value.format_spec)] if value.format_spec else []
            parts.append(self.ask("formatted", node, self.visit(value.value),
                                  ast.copy_location(ast.Constant(value.conversion), node), *spec))
        return self.ask("joined", node, *parts)

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return self.ask("remainder", node, node.left, node.right) if isinstance(node.op, ast.Mod) else node

    def catching(self, node, body):
        """The statements of a place where an exception may be in hand."""
        return [ast.copy_location(ast.Expr(self.ask("caught", node)), node), *body]

    def visit_ExceptHandler(self, node):
        self.generic_visit(node)
        node.body = self.catching(node, node.body)
        return node

    def visit_Try(self, node):
        self.generic_visit(node)
        if node.finalbody:
            node.finalbody = self.catching(node.finalbody[0], node.finalbody)
        return node

    visit_TryStar = visit_Try

    def visit_For(self, node):
        self.generic_visit(node)
        node.iter = self.ask("ordered", node.iter, node.iter)
        return node

    visit_comprehension = visit_For

    def visit_Starred(self, node):
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self.ask("ordered", node.value, node.value)
        return node

    def visit_Assign(self, node):
        self.generic_visit(node)
        if any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets):
            node.value = self.ask("ordered", node.value, node.value)
        return node


ASKED = types.SimpleNamespace(given=given, formatted=formatted, joined=joined, remainder=remainder, ordered=ordered,
                              caught=caught)


def rewritten(text, name=SOURCE_NAME, mode="exec", optimize=-1):
    """The code of host code's text, or of its syntax tree, with the functions of this file among
    its constants: no name leads to them."""
    mark = f"<{random.SystemRandom().getrandbits(128):x}>"
    tree = text if isinstance(text, ast.AST) else ast.parse(text, name, mode)

    def with_asked(code):
        return code.replace(co_consts=tuple(
            ASKED if TYPE(c) is str and c == mark else with_asked(c) if isinstance(c, types.CodeType) else c
            for c in code.co_consts))
    with tracer_sites.deep():
        tree = ast.fix_missing_locations(Rewriter(mark).visit(tree))
        return with_asked(compile(tree, name, mode, dont_inherit=True, optimize=optimize))
