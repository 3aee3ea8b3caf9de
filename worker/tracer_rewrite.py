"""tracer_rewrite: the candidate's host code, rewritten so that it asks for whatever it calls.

What is written in C looks at its arguments in ways that no method of the class Drawn hears of
(tracer_drawn.py). So in the second trace each call of host code's text asks `given` for what it
calls, and functions that are not its own get no Drawn but by a rule of this file. Values stay what
they are.
"""
import ast
import collections
import collections.abc
import copy
import datetime
import functools
import operator
import random
import sys
import types
import warnings

import numpy
import torch

import tracer_asked
import tracer_disguise
import tracer_drawn
import tracer_sites
import tracer_value
from tracer_chance import GENERATORS, RANDOM, draws, refused_draw
from tracer_drawn import (CALL, DATE, DECIDES, DEPTH, FILES, HASH, HERE, IDENTITY, INSTEAD, LIVES, TYPE, Drawn,
                          address_of, checked_text, derived, drawn, facts_of, first_drawn, formatted, hash_of,
                          identity, is_fixed, is_ours, joined, refuse, refused, remainder, text_of)
from tracer_record import SOURCE_NAME


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
# Functions that call what they are given, or keep it.
TAKERS = frozenset(map(id, (map, filter, sorted, min, max, list, tuple, dict, set, zip, enumerate, reversed, iter, next,
                            setattr, callable, functools.partial, functools.reduce)))
PARTS_MAX = 64
MADE = "host code looks at how torch's, Triton's or Python's functions are made: what it does may not depend on that"
LOOKERS = frozenset(map(id, (type, isinstance, issubclass, callable, getattr, hasattr, repr, str, dir, help)))
HELD = (list, tuple, dict, set, frozenset, collections.deque, type({}.keys()), type({}.items()), type({}.values()))
# Functions whose result is made of their arguments and of nothing else, and what it is.
MAKERS = {IDENTITY(f): kind for f, kind in (
    (int, int), (float, float), (complex, complex), (bool, bool), (hex, str), (oct, str), (bin, str), (chr, str),
    (bytes, bytes), (len, int), (ord, int), (abs, None), (round, None), (divmod, None), (pow, None), (sum, None))}
MAKING_MODULES = ("math", "cmath", "time", "datetime", "posixpath", "decimal", "fractions", "statistics")
MAKING_CLASSES = (int, float, datetime.date, datetime.timedelta)
TEXTS = {IDENTITY(str): str, IDENTITY(repr): repr, IDENTITY(ascii): ascii}
DOORS = ("__getattribute__", "__getattr__", "getattr_static")      # to what an attribute's name gives
SLOTS = (types.MethodWrapperType, types.WrapperDescriptorType)
OF_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType, *SLOTS)
NAMED = (*OF_C, types.MethodType, types.FunctionType)
# Functions that do not show in which order a set holds its things, and methods of collections that
# take it as a thing; every other function that is given one may go through it.
ORDERLESS = frozenset(map(id, (
    len, isinstance, issubclass, type, id, bool, hash, callable, set, frozenset, any, all, sum, print, getattr, hasattr,
    setattr, functools.partial, types.SimpleNamespace, operator.eq, operator.ne, operator.or_, operator.and_,
    operator.sub, operator.xor, operator.contains, copy.copy, copy.deepcopy)))
KEYED = (sorted, min, max)       # nor do these, where no two things are of one rank
KEEPING = ("append", "appendleft", "insert", "setdefault", "get", "index", "count", "remove", "__contains__",
           "__setitem__", "__eq__", "__ne__")
# Functions that hand on the things that a collection holds, and do not look into them.
HANDING = frozenset(map(id, (list, tuple, iter, next, zip, enumerate, reversed, filter, sorted, min, max, dict,
                             collections.deque)))
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
# Functions in C that say where a tensor's memory is, or who listens.
WHERE = frozenset(("_dispatch_keys", "_dispatch_key_set", "_parse_to", "_from_dlpack", "_to_dlpack", "isatty"))
TOLD = frozenset((("torch.utils.dlpack", "from_dlpack"), ("torch._tensor", "__dlpack__")))


def given(f):
    """What host code calls where its text calls `f`."""
    kind = type(f)
    inner = (f.__func__ if kind is types.MethodType
             else getattr(f, "__wrapped__", f) if kind is functools._lru_cache_wrapper else f)
    if TYPE(inner) is types.FunctionType and inner.__globals__ is tracer_drawn.MODULE:
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


def is_own(cls):
    return getattr(cls, "__module__", None) == tracer_drawn.MODULE.get("__name__")


def before(f, args, kwargs):
    """What a function that is not the candidate's own answers, where that is not its own answer:
    (answer,), or (None, what makes it of its own), or None."""
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
    if f is numpy.random.seed and (args and args[0] is not None or kwargs.get("seed") is not None):
        GENERATORS.pop(id(numpy.random.mtrand._rand), None)
    if found is None and is_seeded(f, args, kwargs):
        found = f(*args, **kwargs),
    if found is None and (f is eval or f is exec or f is compile) and args:
        found = run_text(f, args, kwargs)
    if found is not None:
        return found
    refuse_lookers(f, args, kwargs)
    if (name in DOORS or TYPE(f) in (operator.attrgetter, operator.methodcaller)) and tracer_asked.is_module(
            (owner, *args)):
        refused("host code asks a module by another door than its names")
    found = by_attribute(f, args) if f is getattr or f is setattr else tracer_asked.of_others(f, name, args)
    if found is None and name and first_drawn((*args, *kwargs.values())) is None:
        found = tracer_asked.answer(f, kind, owner, name, args, kwargs)
    if found is not None:
        return found
    # By argument: functions that tell of the process, sets that show their order, drawn values.
    asks = [told_by(f, a) for a in (*args, *kwargs.values())]
    if any(a is not b for a, b in zip(asks, (*args, *kwargs.values()))):
        return f(*asks[:len(args)], **dict(zip(kwargs, asks[len(args):]))),
    found = refuse_orders(f, owner, name, args, kwargs)
    if found is not None:
        return found
    value = PARAMETER[0](args[0]) if f is float and args and isinstance(args[0], torch.Tensor) else None
    if value is not None:
        return value,
    value = first_drawn((*args, *kwargs.values()) if kwargs else args, DEPTH, (Drawn, tracer_value.Value))
    if TYPE(value) is tracer_value.Value:
        value.refuse()
    return None if value is None else with_drawn(f, kind, owner, name, value, args, kwargs)


def by_attribute(f, args):
    """getattr and setattr, as the attribute in host code's text would be asked for."""
    if f is setattr and len(args) == 3:
        tracer_asked.put(*args[:2])
    if f is not getattr or len(args) < 2 or TYPE(args[1]) is not str:
        return None
    asked = tracer_asked.owner(*args[:2])
    return None if asked is args[0] else (getattr(asked, args[1]),)


def refuse_orders(f, owner, name, args, kwargs):
    """A function that may go through a set. Where one ranks by a key, things of one rank come in
    the set's order; (answer,) then, where there are none."""
    values = (*args, *kwargs.values())
    of_sets = isinstance(owner, (set, frozenset)) or getattr(f, "__objclass__", None) in (set, frozenset)
    if id(f) in ORDERLESS or of_sets or name in KEEPING:
        return None
    first = args[0] if args and isinstance(args[0], (set, frozenset)) and len(args[0]) > 1 else None
    if f in KEYED and first is not None and len(args) == 1:
        if kwargs.get("key") is None:
            return None
        ranks = []
        key, kwargs = kwargs["key"], dict(kwargs, key=lambda v: ranks.append(key(v)) or ranks[-1])
        found = f(first, **kwargs)
        ranks.sort()
        if any(a == b for a, b in zip(ranks, ranks[1:])):
            ordered(first)
        return found,
    for thing in sets_in(values, 0 if id(f) in HANDING or f is map and own_function(args[0]) else DEPTH):
        ordered(thing)
    return None


def own_function(f):
    return TYPE(f) is types.FunctionType and f.__globals__ is tracer_drawn.MODULE


def sets_in(values, depth=DEPTH):
    """The sets among these, and in the lists, tuples and dicts among them."""
    for value in values:
        if isinstance(value, (set, frozenset)):
            yield value
        elif depth and TYPE(value) in (list, tuple) and len(value) <= PARTS_MAX:
            yield from sets_in(value, depth - 1)
        elif depth and TYPE(value) is dict and len(value) <= PARTS_MAX:
            yield from sets_in((*value.values(), *value), depth - 1)


def told_by(f, thing):
    """What a function gets for this argument: one that it may call tells host code what it may
    know."""
    if id(f) in LOOKERS or getattr(f, "__module__", None) == "inspect":
        return thing
    if thing is IDENTITY or thing is HASH:
        return identity if thing is IDENTITY else hash_of
    is_asked = id(f) in TAKERS and (id(thing) in LOOKERS or tracer_asked.is_asker(thing))
    return types.MethodType(CALLER, thing) if is_asked else thing


def refuse_lookers(f, args, kwargs):
    """Whoever asks what one of the tracer's own functions or classes is made of: they stand in for
    others, and are not made as those are."""
    is_asked = f in (getattr, hasattr) and len(args) > 1 and tracer_disguise.tells(*args[:2])
    is_taker = id(f) in TAKERS
    for thing in (*args, *kwargs.values()):
        for part in thing if type(thing) in (list, tuple) and len(thing) <= PARTS_MAX else (thing,):
            if TYPE(part) is types.FunctionType or TYPE(part) is types.MethodType:
                is_asked = is_asked or not is_taker and tracer_disguise.is_stand_in(part)
    if (f is type or f is isinstance or f is issubclass) and args and (
            tracer_disguise.tells(args[0], "__class__") and not is_stand_ins(args[1:])):
        is_asked = True
    # The old classes of tensors say where one is.
    if f is isinstance and len(args) == 2 and type(args[1]).__name__ == "tensortype":
        is_asked = True
    is_looked_at = args and (tracer_disguise.tells(args[0], "__class__")
                             or TYPE(args[0]) is types.ModuleType and vars(args[0]) is not tracer_drawn.MODULE)
    if is_asked or is_looked_at and getattr(f, "__module__", None) == "inspect":
        refused(MADE)


def is_stand_ins(classes):
    """The tracer's own class is one of them in an ordinary process, too."""
    return len(classes) == 1 and id(classes[0]) in tracer_disguise.STAND_IN_CLASSES


def of(value, name):
    """What host code asks for this attribute."""
    if tracer_disguise.tells(value, name):
        refused(MADE)
    return tracer_asked.owner(value, name)


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
    if name in WHERE and kind in OF_C or (getattr(f, "__module__", None), name) in TOLD:
        refused(DECIDES.format(f"{name}()"))
    if name in ROOM and kind in NAMED and not is_ours(f):
        return drawn(f"{name}()", None),
    if name == "__hash__" and kind in SLOTS:
        thing = args[0] if args else owner
        return (identity(thing) if getattr(f, "__objclass__", None) is object else hash_of(thing)),
    if name in ("now", "utcnow", "today") and isinstance(owner, type) and issubclass(owner, DATE):
        return drawn(f"{owner.__name__}.{name}()", owner),
    is_torchs = isinstance(owner, (torch.Tensor, torch.UntypedStorage))      # which answer for themselves
    if name in ("data_ptr", "_data_ptr") and not args and kind is not types.FunctionType and not is_torchs:
        address = f()
        life = LIVES[0](owner.untyped()) if isinstance(owner, torch.TypedStorage) else None
        return (address_of(address, address, 1, life) if type(address) is int else address),
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
        kind = facts_of(args[0]).kind if type(args[0]) is Drawn else None
        return (kind or derived(args),) if type(args[0]) is Drawn else None
    if id(f) in TEXTS:
        return (text_of(args[0], TEXTS[id(f)]) if type(args[0]) is Drawn else derived((value,), str)),
    if f is format or isinstance(owner, str) or of is str:
        return derived((value,), str if name in ("join", "format", "__add__", "__format__", "replace") else None),
    if f is print or f is warnings.warn or module == "logging":
        return None,
    if f is operator.is_ or f is operator.is_not:
        found = tracer_asked.same(*args)
        return found if type(found) is Drawn else found == (f is operator.is_),
    if f is callable and facts_of(value).kind is None:
        return derived((value,), bool),
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


# The wrapper is a function of the candidate's to whoever looks at frames' names.
CALL_TEXT = """
def call(f, /, *args, **kwargs):
    found = before(f, args, kwargs)
    if found is not None:
        return found[0] if len(found) == 1 else found[1](f(*args, **kwargs))
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

def debug():
    return drawn("__debug__", bool)


def ordered(things):
    """Where host code goes through a set: its order belongs to the process."""
    if isinstance(things, (set, frozenset)) and len(things) > 1 and not all(map(is_fixed, things)):
        refused("host code goes through a set of texts or objects, whose order belongs to the process and not to the "
                "task: sort it, or keep a list")
    return things


# ---- the text ----

def written(value, conversion, spec=""):
    """An f-string's part."""
    for thing in sets_in((value,)):
        ordered(thing)
    return formatted(value, conversion, spec)


def rest_or_text(left, right):
    """`%`, of texts too."""
    for thing in sets_in((right,)) if type(left) in (str, bytes) else ():
        ordered(thing)
    return remainder(left, right)


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
        # These see the names of their caller, so they are called as they are.
        if isinstance(function, ast.Name) and function.id in ("vars", "dir") and len(node.args) == 1 and not is_starred:
            node.args[0] = self.ask("of", node.args[0], node.args[0], ast.copy_location(ast.Constant("__dict__"), node))
        self.generic_visit(node)
        if is_super:
            return node
        node.func = self.ask("given", function, node.func)
        # Python says of a method's call that it stands in the line of the method's name.
        if isinstance(function, ast.Attribute) and not is_starred and function.end_lineno != node.lineno:
            node.lineno, node.col_offset = function.end_lineno, 0
        return node

    def visit_Attribute(self, node):
        """Whose attribute it is; what host code sets itself is its own."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Del):
            asked = "of" if isinstance(node.ctx, ast.Load) else "put"
            node.value = self.ask(asked, node.value, node.value, ast.copy_location(ast.Constant(node.attr), node))
        return node

    def visit_Compare(self, node):
        """`is` asks nothing of what it compares."""
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        same = self.ask("same", node, node.left, node.comparators[0])
        return same if isinstance(node.ops[0], ast.Is) else ast.copy_location(ast.UnaryOp(ast.Not(), same), node)

    def visit_Match(self, node):
        """A class's pattern asks for attributes by itself."""
        self.generic_visit(node)
        if any(isinstance(part, ast.MatchClass) for case in node.cases for part in ast.walk(case.pattern)):
            node.subject = self.ask("subject", node.subject, node.subject)
        return node

    def visit_Module(self, node):
        """What the text imports in its own lines is there."""
        for line in node.body:
            if isinstance(line, (ast.Import, ast.ImportFrom)):
                tracer_asked.imports(line)
        return self.generic_visit(node)

    def visit_ImportFrom(self, node):
        """A name that is taken from a module is asked for like its attribute."""
        if node.level or node.module == "__future__":
            return node
        if node.names[0].name == "*":
            module = ast.copy_location(ast.Constant(node.module), node)
            return [node, ast.copy_location(ast.Expr(self.ask("starred", node, module)), node)]
        lines = [node]
        for alias in node.names:
            own = ast.copy_location(ast.Name(alias.asname or alias.name, ast.Load()), node)
            place = ast.copy_location(ast.Name(own.id, ast.Store()), node)
            texts = [ast.copy_location(ast.Constant(text), node) for text in (node.module, alias.name)]
            lines.append(ast.copy_location(ast.Assign([place], self.ask("named", node, own, *texts)), node))
        return lines

    def visit_Name(self, node):
        """Whether asserts run, and whether a file was imported, belongs to the process."""
        asked = {"__debug__": "debug", "__builtins__": "builtins"}.get(node.id)
        return self.ask(asked, node) if asked else node

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

    def visit_Set(self, node):
        """What goes from set to set keeps no order."""
        for starred in node.elts:
            if isinstance(starred, ast.Starred):
                starred.value = self.visit(starred.value)
        node.elts = [e if isinstance(e, ast.Starred) else self.visit(e) for e in node.elts]
        return node

    def visit_Assign(self, node):
        self.generic_visit(node)
        if any(isinstance(t, (ast.Tuple, ast.List)) or isinstance(t, ast.Subscript) and isinstance(t.slice, ast.Slice)
               for t in node.targets):
            node.value = self.ask("ordered", node.value, node.value)
        return node

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Add):
            node.value = self.ask("ordered", node.value, node.value)
        return node

    def visit_YieldFrom(self, node):
        self.generic_visit(node)
        node.value = self.ask("ordered", node.value, node.value)
        return node


ASKED = types.SimpleNamespace(given=given, formatted=written, joined=joined, remainder=rest_or_text, ordered=ordered,
                              caught=caught, debug=debug, of=of, put=tracer_asked.put, same=tracer_asked.same,
                              named=tracer_asked.named, starred=tracer_asked.starred,
                              subject=tracer_asked.subject, builtins=tracer_asked.own_builtins)


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
        return with_asked(compile(Rewriter(mark).visit(tree), name, mode, dont_inherit=True, optimize=optimize))
