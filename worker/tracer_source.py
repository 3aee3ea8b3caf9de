"""tracer_source: what a clean process needs to make a kernel's IR again (rebuild.py), written into
the tape beside the IR.

A kernel's recipe names functions by their place in the candidate's text, never by their text:
whoever reads it takes the syntax trees from the candidate's file itself. What the functions see
beyond their own names are values: constants, other functions, library functions and modules of
Triton by name. What has no such form is written as unknown; that matters only where the compiler
asks for it.

A recipe is a JSON object: {"functions": [function...], "entry": index, "name": kernel's name,
"signature": [[parameter, type]...], "constants": [[path, value]...], "attrs": [[path, [[name,
n]...]]...], "options": {name: scalar}}. A function is {"kind":
"jit"|"constexpr"|"builtin"|"aggregate", "name", "qualname", "module", "line", "noinline",
"defaults": [value...], "kwdefaults": {name: value}, "names": {name: value}}; of an aggregate it is
the constructor, with "aggregate": [name, qualname, module], "is_constexpr", "fields": [[name,
value]...] and "methods": [[name, value]...]. A value is a list that starts with its kind: see
value() below.
"""
import ast
import enum
import functools
import inspect
import json
import math
import sys
import textwrap
import types

import torch
import triton.language as tl
from triton._utils import is_namedtuple
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import ConstexprFunction, JITCallable, JITFunction

from tracer_record import SOURCE_NAME
from ttir_compile import HELPERS, lines_of

LIBRARY = ("triton", "triton.language", "math")      # modules that the rebuilding process may hold itself
DEPTH_MAX = 16


def is_library_name(name):
    return name in LIBRARY or name.startswith("triton.language.")


class Recipe:
    """Collects the functions that a kernel reaches."""

    def __init__(self):
        self.functions = []
        self.index = {}          # id of a function object -> its place in functions
        self.jitted = []         # those of the functions that Triton hashes
        self.is_plain = True     # nothing but the recipe decides what the front end makes of it

    def value(self, v, chains=frozenset(), depth=0):
        """A value as lists of JSON. `chains`: the attributes that the function asks of it, for
        modules that are not Triton's."""
        if depth > DEPTH_MAX:
            return self.unknown("a value nested too deep")
        self.is_plain = self.is_plain and is_plain(v)
        if v is None or type(v) in (bool, int, str):
            return ["scalar", v]
        if type(v) is float:
            return ["float", v.hex()]
        # A number or text with a name is one to the front end.
        if isinstance(v, enum.Enum) and isinstance(v, (int, str)):
            return ["scalar", int.__pos__(v) if isinstance(v, int) else str.__str__(v)]
        if isinstance(v, tl.constexpr):
            return ["constexpr", self.value(v.value, depth=depth + 1)]
        if isinstance(v, tl.pointer_type):
            return ["pointer", self.value(v.element_ty, depth=depth + 1), v.address_space, bool(v.const)]
        if type(v) is tl.dtype:
            return ["dtype", v.name]
        if isinstance(v, torch.dtype):
            return ["torch", str(v).removeprefix("torch.")]
        if isinstance(v, types.ModuleType):
            return self.module(v, chains, depth)
        if isinstance(v, (tuple, list)) or isinstance(v, type) and issubclass(v, tuple):
            return self.sequence(v, depth)
        return self.callable(v)

    def unknown(self, what):
        self.is_plain = False
        return ["unknown", what]

    def sequence(self, v, depth):
        if isinstance(v, type):
            self.is_plain = False      # the compiler calls it, and its constructor may be the candidate's
            return (["namedtuple_class", v.__name__, list(v._fields)] if hasattr(v, "_fields")
                    else self.unknown(v.__name__))
        items = [self.value(x, depth=depth + 1) for x in v]
        if is_namedtuple(type(v)):
            return ["namedtuple", type(v).__name__, list(v._fields), items]
        return ["tuple" if isinstance(v, tuple) else "list", items]

    def module(self, v, chains, depth):
        name = v.__name__
        if is_library_name(name) and sys.modules.get(name) is v:
            return ["module", name]
        # asked again it says the same: it has no function that is asked,
        # and is not asked as a whole
        self.is_plain = (self.is_plain and sys.modules.get(name) is v and () not in chains
                         and type(v) is types.ModuleType and "__getattr__" not in vars(v))
        attributes = {}
        for attribute in {c[0] for c in chains if c}:
            if hasattr(v, attribute):
                rest = frozenset(c[1:] for c in chains if c and c[0] == attribute)
                attributes[attribute] = self.value(getattr(v, attribute), rest, depth + 1)
        return ["names", module_name(name), attributes]

    def callable(self, v):
        """A function of Triton's by name, one of the candidate's by place."""
        place = library_place(v)
        if place is not None:
            # no seal is over a helper, so both sides compile it
            self.is_plain = self.is_plain and place[0] not in HELPERS
            return ["library", *place]
        if isinstance(v, type) and getattr(v, "__triton_aggregate__", False):
            self.is_plain = False
            return self.aggregate(v)
        kind, function = candidate_function(v)
        if function is None:
            return self.unknown(type(v).__name__)
        self.is_plain = self.is_plain and kind == "jit" and is_as_written(v)
        if id(v) not in self.index:
            if isinstance(v, JITCallable):
                self.jitted.append(v)
            self.index[id(v)] = len(self.functions)
            self.functions.append(None)
            self.functions[self.index[id(v)]] = self.function(kind, v, function)
        return ["function", self.index[id(v)]]

    def aggregate(self, v):
        """A class of the candidate's whose objects are several values of a kernel: the types of its
        fields, its methods, and where its constructor stands."""
        if id(v) in self.index:
            return ["function", self.index[id(v)]]
        own = inspect.getclosurevars(v.__new__).nonlocals.get("cls")
        init = getattr(own, "__init__", None)
        is_constexpr = isinstance(init, ConstexprFunction)
        init = init.fn if is_constexpr else init
        if not isinstance(init, types.FunctionType) or init.__code__.co_filename != SOURCE_NAME:
            return self.unknown(v.__name__)
        self.index[id(v)] = index = len(self.functions)
        self.functions.append(None)
        methods = [(name, m) for name, m in vars(v).items() if isinstance(m, JITCallable)]
        entry = self.function("aggregate", init, init)
        entry.update(aggregate=[v.__name__, v.__qualname__, module_name(v.__module__)], is_constexpr=is_constexpr,
                     fields=[[name, self.value(kind)] for name, kind in own.__annotations__.items()],
                     methods=[[name, self.value(m)] for name, m in methods])
        self.functions[index] = entry
        return ["function", index]

    def function(self, kind, v, function):
        """A function of the candidate's: where it stands, and what the names in it mean."""
        scope = dict(function.__globals__)
        scope.update((name, cell_value(cell))
                     for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()))
        names = {}
        for name, chains in names_of(source_of(v, function)).items():
            if name in scope and scope[name] is not CELL_EMPTY:
                names[name] = self.value(scope[name], frozenset(chains))
        return {
            "kind": kind, "name": function.__name__, "qualname": function.__qualname__,
            "module": module_name(function.__module__), "line": function.__code__.co_firstlineno,
            "noinline": bool(getattr(v, "noinline", False)), "names": names,
            "defaults": [self.value(d) for d in function.__defaults__ or ()],
            "kwdefaults": {name: self.value(d) for name, d in (function.__kwdefaults__ or {}).items()},
        }


CELL_EMPTY = object()
PLAIN = {type(None), bool, int, str, float, tuple, list, torch.dtype, types.ModuleType}
# What a kernel's object holds, as the decorator leaves it.
JIT_NAMES = set(vars(tl.sum)) | {"hash", "used_global_vals", "device_caches", "CompiledKernel", "ASTSource", "compile"}
TEXT = ""        # the candidate's
RECIPES_NAME = "candidate"      # what a recipe calls the candidate's module
OWN_NAME = RECIPES_NAME         # what that is called in this process


def module_name(name):
    return RECIPES_NAME if name == OWN_NAME else name


def cell_value(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return CELL_EMPTY


def library_place(v):
    """(module, name) of what an installed Triton has under that name, or TorchInductor's helpers
    for kernels; None for all else."""
    module, name = getattr(v, "__module__", None), getattr(v, "__name__", None)
    if isinstance(module, str) and isinstance(name, str) and (is_library_name(module) or module in HELPERS):
        if getattr(sys.modules.get(module), name, None) is v:
            return module, name
    return None


def candidate_function(v):
    """(kind, Python function) of a function whose text is the candidate's."""
    if isinstance(v, ConstexprFunction):
        kind, function = "constexpr", v.fn
    elif isinstance(v, JITFunction):
        kind, function = "jit", v.fn
    elif getattr(v, "__triton_builtin__", False):
        kind, function = "builtin", getattr(v, "__wrapped__", v)
    else:
        return None, None
    if not isinstance(function, types.FunctionType) or function.__code__.co_filename != SOURCE_NAME:
        return None, None
    return kind, function


def is_plain(v):
    """Whether a value is all that its form in a recipe says; functions are asked elsewhere."""
    kind = type(v)
    if kind is tl.dtype:
        return vars(v) == vars(tl.dtype(v.name))
    if kind is tl.constexpr:
        return vars(v).keys() <= {"value", "type"} and ("type" not in vars(v) or is_type_of(v.type, v.value))
    return kind in PLAIN or callable(v)


def is_type_of(kind, value):
    return type(kind) is tl.core.constexpr_type and vars(kind).keys() == {"value"} and kind.value is value


@functools.cache
def definitions(text):
    """The functions of a text by their first line and name, as the front end cuts them out."""
    lines, found = lines_of(text), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno] + [d.lineno for d in node.decorator_list])
            found[first, node.name] = textwrap.dedent("".join(lines[node.lineno - 1:node.end_lineno]))
    return found


def is_as_written(v):
    """Whether a kernel is what the candidate's text says at its place, and no more."""
    place = v.fn.__code__.co_firstlineno, v.fn.__code__.co_name
    return (type(v) is JITFunction and vars(v).keys() <= JIT_NAMES and v.starting_line_number == place[0]
            and v.fn.__name__ == place[1] and v._fn_name == f"{v.fn.__module__}.{v.fn.__qualname__}"
            and v.arg_names == list(v.fn.__code__.co_varnames[:v.fn.__code__.co_argcount])
            and v.__globals__ is v.fn.__globals__ and type(v.__globals__) is dict
            and v._src.rstrip() == definitions(TEXT).get(place, "\0").rstrip())


def source_of(v, function):
    if isinstance(v, JITCallable):
        return v._src
    return textwrap.dedent("".join(inspect.getsourcelines(function)[0]))


@functools.cache      # each size defines the same functions anew
def names_of(source):
    """Each name that a function's text mentions, with the chains of attributes that follow it:
    math.pi is {"math": {("pi",)}}."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        chain = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            found.setdefault(node.id, set()).add(tuple(chain))
    return found


def option_values(options):
    """The options of a compilation that are plain values; what belongs to the target is the same
    everywhere."""
    target = ("arch", "extern_libs", "backend_name")
    return {k: v for k, v in options.__dict__.items()
            if k not in target and (v is None or type(v) in (bool, int, str) or type(v) is float and math.isfinite(v))}


def type_json(kind):
    """A parameter's type: a text, ["tuple", [type...]] or ["namedtuple", name, fields,
    [type...]]."""
    if not isinstance(kind, tuple):
        return str(kind)
    items = [type_json(k) for k in kind]
    return (["namedtuple", type(kind).__name__, list(kind._fields), items] if hasattr(kind, "_fields")
            else ["tuple", items])


def recipe_of(src, options):
    """The recipe of one compilation (ASTSource), still without the kernel's name, whether it is all
    that the front end sees, and the functions in it that Triton hashes."""
    recipe = Recipe()
    entry = recipe.callable(src.fn)
    made = {
        "functions": recipe.functions, "entry": entry[1] if entry[0] == "function" else -1,
        "signature": [[k, type_json(v)] for k, v in src.signature.items()],
        "constants": [[list(path), recipe.value(v)] for path, v in src.constants.items()],
        "attrs": [[list(path), [[a, n] for a, n in pairs]] for path, pairs in src.attrs.items()],
        "options": option_values(options),
    }
    is_whole = recipe.is_plain and type(src) is ASTSource and type(src.fn) is JITFunction and src.fn._repr is None
    return made, is_whole, recipe.jitted


def recipe_text(recipe, **more):
    return json.dumps(dict(recipe, **more), separators=(",", ":"), sort_keys=True)
