"""rebuild: a kernel's IR once more, in a process in which the candidate never ran
(docs/verifier.md, "The IR is the source's").

Input is the candidate's text and a kernel's recipe (tracer_source.py), which the candidate's
process wrote: hostile. Functions are taken from the text as syntax trees and given to Triton's
front end in a namespace of constants; nothing of the candidate is executed here. The functions that
the compiler itself calls (constexpr_function, builtin) run in a child with nothing but a pipe, and
return constants. Whatever has no place in this scheme is `unsupported`.
"""
import ast
import collections
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import linecache
import math
import os
import re
import resource
import struct
import sys
import types

import triton.language as tl
from triton.compiler.code_generator import CodeGenerator
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.runtime import driver
from triton.runtime.jit import BoundConstexprFunction, ConstexprFunction, JITFunction

from ttir_compile import HELPERS, lines_of, make_backend, target, ttir_text, without_folders

SOURCE_NAME = "candidate.py"
ANSWER_BYTES_MAX = 1 << 20
KINDS = ("jit", "constexpr", "builtin", "aggregate")
TRITON_NAMES = ("language", "cdiv", "next_power_of_2")      # of the package itself, what a kernel may use
COMPILER_OPTIONS = frozenset(("num_warps", "num_ctas", "num_stages", "warp_size", "maxnreg",
                              "enable_fp_fusion", "enable_reflect_ftz", "launch_cooperative_grid", "launch_pdl",
                              "default_dot_input_precision", "max_num_imprecise_acc_default", "debug",
                              "sanitize_overflow"))
NULL_OPTIONS = frozenset(("ptx_version", "ir_override", "instrumentation_mode"))   # not understood unless unset


class Unsupported(Exception):
    """Not understood: no reproach."""


# ---- what a kernel's text may reach in this process ----

def check_module_attribute(module, name):
    """Attributes of modules: Triton's language and math alone; elsewhere the text could reach the
    interpreter."""
    if is_name_space(module):
        return
    if module.__name__ == "triton":
        if name not in TRITON_NAMES:
            raise Unsupported(f"triton.{name} inside a kernel")
    elif module is not math and not module.__name__.startswith("triton.language"):
        raise Unsupported(f"module {module.__name__} inside a kernel")


NAME_SPACE = object()      # the `__spec__` of what stands for such a module


def name_space(name, values):
    """A module of the candidate's, or of a library, as far as a kernel uses it: constants and
    functions. The compiler takes global modules of Python's own class alone."""
    space = types.ModuleType(name)
    vars(space).update(values, __spec__=NAME_SPACE)
    return space


def is_name_space(module):
    return vars(module).get("__spec__") is NAME_SPACE


_visit_attribute = CodeGenerator.visit_Attribute
_call_function = CodeGenerator.call_Function


def visit_attribute(self, node):
    if node.attr.startswith("__"):
        raise Unsupported(f"attribute {node.attr} inside a kernel")
    value = _visit_attribute(self, node)
    if (isinstance(value, types.ModuleType) and not is_name_space(value)
            and not value.__name__.startswith("triton.language")):
        raise Unsupported(f"module {value.__name__} inside a kernel")
    return value


def is_name(node):
    """A name, or an attribute of one: to ask what it means makes no IR."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


_visit_arg = CodeGenerator.visit_arg
_visit_ann_assign = CodeGenerator.visit_AnnAssign


def visit_arg(self, node):
    """A parameter's annotation says nothing that the recipe's signature does not, and may name what
    is not here (torch.Tensor)."""
    if is_name(node.annotation):
        node = ast.copy_location(ast.arg(node.arg, None), node)
    return _visit_arg(self, node)


def visit_ann_assign(self, node):
    """A variable's annotation means something where it is constexpr, and nothing where it names
    what is not here."""
    if is_name(node.annotation):
        try:
            self.visit(node.annotation)
        except CompilationError:
            node = ast.copy_location(ast.AnnAssign(node.target, ast.copy_location(ast.Constant(None), node), node.value,
                                                   node.simple), node)
    return _visit_ann_assign(self, node)


_get_attribute = CodeGenerator.get_Attribute


def get_attribute(self, lhs, attr):
    if isinstance(lhs, types.ModuleType):
        check_module_attribute(lhs, attr)
    return _get_attribute(self, lhs, attr)


def may_call(self, fn):
    if (isinstance(fn, (JITFunction, ConstexprFunction, BoundConstexprFunction)) or tl.core.is_builtin(fn)
            or fn in self.builtin_namespace.values()):
        return True
    if isinstance(fn, type):
        return issubclass(fn, tuple) and hasattr(fn, "_fields") or fn.__module__.startswith("triton.language")
    owner = getattr(fn, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return isinstance(owner, (tl.core.base_value, str, int, float, tuple, list, tl.core.base_type))
    name = getattr(fn, "__name__", None)
    if isinstance(name, str) and getattr(math, name, None) is fn:
        return True
    return (type(fn).__name__ == "BoundJITMethod" or isinstance(getattr(fn, "__module__", None), str)
            and fn.__module__.startswith("triton.language"))


def call_function(self, node, fn, args, kws):
    if fn is getattr or fn is hasattr:
        target, name = args[0], args[1].value if isinstance(args[1], tl.constexpr) else args[1]
        if isinstance(target, types.ModuleType) or str(name).startswith("__"):
            raise Unsupported(f"{fn.__name__} of {name} inside a kernel")
    if not may_call(self, fn):
        raise Unsupported(f"a call of {getattr(fn, '__name__', type(fn).__name__)} inside a kernel")
    return _call_function(self, node, fn, args, kws)


class Card:
    """What Triton asks for the card at hand: the one that is compiled for. A kernel that asks
    (`tl.target_info`) is the one that runs there."""
    target = None

    def get_current_target(self): return Card.target


def install():
    """Once, in the zygote: Triton's front end with its reach bounded."""
    driver.set_active(Card())
    CodeGenerator.visit_Attribute = visit_attribute
    CodeGenerator.get_Attribute = get_attribute
    CodeGenerator.call_Function = call_function
    CodeGenerator.visit_arg = visit_arg
    CodeGenerator.visit_AnnAssign = visit_ann_assign


# ---- the candidate's own compile-time functions: a child that computes constants ----

def send(fd, message):
    data = json.dumps(message).encode()
    data = struct.pack("<I", len(data)) + data
    while data:
        data = data[os.write(fd, data):]


def receive(fd):
    def take(count):
        out = b""
        while len(out) < count:
            piece = os.read(fd, count - len(out))
            if not piece:
                raise Unsupported("a function that the compiler calls ended its process")
            out += piece
        return out
    (length,) = struct.unpack("<I", take(4))
    if length > ANSWER_BYTES_MAX:
        raise Unsupported("a function that the compiler calls returned more than 1 MiB")
    return json.loads(take(length))


def constant_json(v):
    """Constants alone cross the pipe."""
    if isinstance(v, tl.constexpr):
        return ["constexpr", constant_json(v.value)]
    if v is None or type(v) in (bool, int, str):
        return ["scalar", v]
    if type(v) is float:
        return ["float", v.hex()]
    if type(v) is tl.dtype:
        return ["dtype", v.name]
    if type(v) in (tuple, list) or isinstance(v, tl.core.tuple):
        return ["tuple", [constant_json(x) for x in v]]
    raise Unsupported(f"a function that the compiler calls takes or returns {type(v).__name__}, not constants alone")


def constant(value):
    kind, rest = value[0], value[1:]
    if kind == "constexpr":
        return tl.constexpr(constant(rest[0]))
    if kind == "scalar" and (rest[0] is None or type(rest[0]) in (bool, int, str)):
        return rest[0]
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "dtype":
        return tl.dtype(rest[0])
    if kind == "tuple":
        return tuple(constant(x) for x in rest[0])
    raise Unsupported("a function that the compiler calls returned no constant")


class Evaluator:
    """The child, started at the first call."""

    def __init__(self, builder):
        self.builder = builder
        self.pid = 0

    def call(self, index, args, kwargs):
        if not self.pid:
            self.start()
        send(self.to_child, [index, [constant_json(a) for a in args], {k: constant_json(v) for k, v in kwargs.items()}])
        kind, value = receive(self.from_child)
        if kind != "value":
            raise Unsupported(f"a function that the compiler calls failed: {str(value)[:300]}")
        return constant(value)

    def start(self):
        child_in, self.to_child = os.pipe()
        self.from_child, child_out = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.serve(child_in, child_out)
            finally:
                os._exit(0)
        os.close(child_in)
        os.close(child_out)

    def serve(self, fd_in, fd_out):
        """The child's life. No other descriptor, no other process, no file written."""
        os.dup2(fd_in, 3)
        os.dup2(fd_out, 4) if fd_out != 4 else None
        os.closerange(5, 1024)
        for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
            resource.setrlimit(limit, (0, 0))
        functions = {}
        while True:
            index, args, kwargs = receive(3)
            try:
                fn = self.builder.python_function(index, functions)
                args, kwargs = [constant(a) for a in args], {k: constant(v) for k, v in kwargs.items()}
                if "_semantic" in inspect.signature(fn).parameters:
                    kwargs["_semantic"] = None
                answer = ["value", constant_json(fn(*args, **kwargs))]
            except BaseException as error:
                answer = ["error", f"{type(error).__name__}: {error}"]
            send(4, answer)

    def close(self):
        if self.pid:
            os.close(self.to_child)
            os.close(self.from_child)
            try:
                os.kill(self.pid, 9)
            except OSError:
                pass
            os.waitpid(self.pid, 0)


# ---- from a recipe to functions ----

def definitions(tree):
    """Each function of the candidate's text by its first line (a decorator's, as Python counts) and
    name."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found[line_of(node), node.name] = node
    return found


def without_body(node):
    """The same parameters, no annotations, nothing to execute."""
    def bare(arg):
        return ast.arg(arg.arg) if arg else None
    a = node.args
    args = ast.arguments([bare(x) for x in a.posonlyargs], [bare(x) for x in a.args], bare(a.vararg),
                         [bare(x) for x in a.kwonlyargs], [None] * len(a.kwonlyargs), bare(a.kwarg), [])
    return ast.FunctionDef(node.name, args, [ast.Pass()], [])


def code_of(node, line):
    module = ast.fix_missing_locations(ast.Module([node], []))
    code = next(c for c in compile(module, SOURCE_NAME, "exec").co_consts if isinstance(c, types.CodeType))
    return code.replace(co_firstlineno=line)


class Builder:
    """The functions of one recipe, made from the candidate's text."""

    def __init__(self, definitions, recipe):
        self.definitions = definitions
        self.entries = recipe["functions"]
        self.made = {}
        self.evaluator = Evaluator(self)

    def node(self, entry):
        node = self.definitions.get((entry["line"], entry["name"]))
        if node is None:
            raise Unsupported(
                f"function {str(entry['name'])[:100]} is not at line {entry['line']} of the source: kernels made of "
                f"text at run time are not supported")
        return node

    def value(self, v, function):
        """`function`: what makes a function's value from its index."""
        kind, rest = v[0], v[1:]
        # Constants of Python and of the compiler, and types.
        if kind in ("scalar", "float"):
            return constant(v)
        if kind == "constexpr":
            return tl.constexpr(self.value(rest[0], function))
        if kind == "dtype":
            return tl.dtype(rest[0])
        if kind == "pointer":
            return tl.pointer_type(self.value(rest[0], function), rest[1], rest[2])
        if kind == "torch":
            import torch
            found = getattr(torch, rest[0])
            if not isinstance(found, torch.dtype):
                raise Unsupported(f"torch.{rest[0]} is no type of elements")
            return found
        # What holds further values.
        if kind in ("tuple", "list"):
            return (tuple if kind == "tuple" else list)(self.value(x, function) for x in rest[0])
        if kind == "namedtuple_class":
            return collections.namedtuple(rest[0], rest[1])
        if kind == "namedtuple":
            return collections.namedtuple(rest[0], rest[1])(*(self.value(x, function) for x in rest[2]))
        # What is found by name in an installed library: never in a module of the candidate's.
        if kind == "module":
            return library_module(rest[0])
        if kind == "library":
            return helper(*rest) if rest[0] in HELPERS else getattr(library_module(rest[0]), rest[1])
        # The candidate's own: a namespace of helpers, a function of the recipe.
        if kind == "names":
            return name_space(rest[0], self.known(rest[1], function))
        if kind == "function":
            return function(rest[0])
        raise KeyError("a value that is no constant")

    def names(self, entry, function):
        return self.known(entry["names"], function)

    def known(self, named, function):
        """What is unknown here is left out: the compiler says so where it asks for it."""
        space = {}
        for name, v in named.items():
            with contextlib.suppress(KeyError):
                space[name] = self.value(v, function)
        return space

    def function(self, index):
        """The function that stands for the candidate's in the compiler's eyes."""
        if index in self.made:
            return self.made[index]
        entry = self.entries[index]
        if entry["kind"] not in KINDS:
            raise Unsupported("a function of an unknown kind")
        node = self.node(entry)
        if entry["kind"] == "aggregate":
            return self.aggregate(index, entry, node)
        space = {"__builtins__": __builtins__, "__name__": entry["module"]}
        stub = types.FunctionType(code_of(without_body(node), entry["line"]), space, entry["name"],
                                  tuple(self.value(d, self.function) for d in entry["defaults"]))
        stub.__qualname__, stub.__module__ = entry["qualname"], entry["module"]
        stub.__kwdefaults__ = {name: self.value(d, self.function) for name, d in entry["kwdefaults"].items()} or None
        self.made[index] = made = self.wrapped(index, entry, stub)
        space.update(self.names(entry, self.function))
        return made

    def aggregate(self, index, entry, node):
        """A class of the candidate's whose objects are several values. Its constructor gets values
        of the compiler, so it is read and not executed: fields become parameters, or constants made
        of them."""
        # The constructor, taken apart: which field is assigned which parameter.
        steps = [assigned_field(statement) for statement in node.body if not is_text(statement)]
        where = inspect.Signature([inspect.Parameter(a.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                   for a in node.args.args])
        defaults = dict(zip([a.arg for a in node.args.args][::-1],
                            [self.value(d, self.function) for d in entry["defaults"]][::-1]))
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.posonlyargs:
            raise Unsupported(f"the constructor of {entry['aggregate'][0]} takes more than named parameters")

        # One of ours in its place, which does these assignments and nothing else.
        def construct(this, *args, **kwargs):
            given = defaults | where.bind_partial(this, *args, **kwargs).arguments
            for field, parameter, is_constant in steps:
                v = given[parameter]
                if entry["is_constexpr"] and isinstance(v, tl.constexpr):
                    v = v.value
                setattr(this, field, tl.constexpr(v) if is_constant else v)

        # The class that the compiler sees, with the fields and methods that the recipe claims.
        name, qualname, module = entry["aggregate"]
        own = type(name, (), {"__init__": construct, "__annotations__": {}, "__qualname__": qualname,
                              "__module__": module})
        self.made[index] = made = tl.core._aggregate(own)      # before its fields and methods: those may name it
        own.__annotations__.update((field, self.value(kind, self.function)) for field, kind in entry["fields"])
        for method, v in entry["methods"]:
            setattr(made, method, self.value(v, self.function))
        return made

    def wrapped(self, index, entry, stub):
        if entry["kind"] == "jit":
            return JITFunction(stub, noinline=entry["noinline"])

        def compute(*args, **kwargs):
            return self.evaluator.call(index, args, kwargs)

        if entry["kind"] == "constexpr":
            made = ConstexprFunction(stub)
            made.fn = compute
            return made

        def builtin(*args, _semantic=None, **kwargs):
            return self.evaluator.call(index, args, kwargs)
        builtin.__triton_builtin__ = True
        return builtin

    def python_function(self, index, made):
        """In the evaluator's child: the function itself, to be executed."""
        if index in made:
            return made[index]
        entry = self.entries[index]
        node = self.node(entry)
        node = ast.FunctionDef(node.name, without_body(node).args, node.body, [])
        other = lambda i: self.python_function(i, made)
        space = {"__builtins__": __builtins__, "__name__": entry["module"]}
        made[index] = fn = types.FunctionType(code_of(node, entry["line"]), space, entry["name"],
                                              tuple(self.value(d, other) for d in entry["defaults"]))
        fn.__kwdefaults__ = {name: self.value(d, other) for name, d in entry["kwdefaults"].items()} or None
        space.update(self.names(entry, other))
        return fn


def is_text(statement):
    return (isinstance(statement, ast.Pass) or isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant))


def assigned_field(statement):
    """(field, parameter, whether it becomes a constant) of self.field = parameter, or of self.field
    = tl.constexpr(parameter)."""
    if (isinstance(statement, ast.Assign) and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Attribute)):
        target, value = statement.targets[0], statement.value
        is_constant = (isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] == "constexpr"
                       and len(value.args) == 1 and not value.keywords)
        value = value.args[0] if is_constant else value
        if isinstance(target.value, ast.Name) and target.value.id == "self" and isinstance(value, ast.Name):
            return target.attr, value.id, is_constant
    raise Unsupported("the constructor of an aggregate does more than keep its parameters")


def library_module(name):
    if name not in ("triton", "math") and not name.startswith("triton.language"):
        raise Unsupported(f"module {name} inside a kernel")
    return importlib.import_module(name)


def helper(module, name):
    """A kernel function of a library that is installed beside Triton's; nothing else that is
    there."""
    found = getattr(helper_module(module), name)
    if type(found) is not JITFunction:
        raise Unsupported(f"{module}.{name} inside a kernel")
    return found


@functools.cache
def helper_module(name):
    """A module of HELPERS without the packages around it, which take seconds to import and are not
    asked for anything: empty ones stand there meanwhile."""
    parts = name.split(".")[:-1]
    folder = os.path.dirname(importlib.util.find_spec(parts[0]).origin)
    around = [".".join(parts[:i + 1]) for i in range(len(parts))]
    for i, package in enumerate(around):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [os.path.join(folder, *parts[1:i + 1])]
    try:
        return importlib.import_module(name)
    finally:
        for package in around:
            del sys.modules[package]


def type_of(kind):
    """A parameter's type in a signature: a text, or a tuple of such."""
    if isinstance(kind, str):
        return kind
    items = [type_of(k) for k in kind[-1]]
    return tuple(items) if kind[0] == "tuple" else collections.namedtuple(kind[1], kind[2])(*items)


# where Python, or a part of it, sees more lines than newlines
ODD_LINE_ENDS = frozenset("\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


def line_of(node):
    """A statement's first line, its decorators included."""
    return min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", ())])


class Text:
    """The candidate's text: its functions, where its statements begin, and what was said of it."""

    def __init__(self, source):
        self.said = {}           # recipe -> answer
        self.tree = ast.parse(source)
        self.functions = definitions(self.tree)
        self.is_even = ODD_LINE_ENDS.isdisjoint(source)

    def until(self, builder):
        """Up to which line an IR depends on the text: the first line of the first statement behind
        the functions it is made of. Whatever begins with the same lines has the same functions: a
        statement of Python ends where the next one begins, and nothing later changes it. 0: on all
        of it."""
        ends = [self.functions[e["line"], e["name"]].end_lineno if (e["line"], e["name"]) in self.functions else None
                for e in builder.entries]
        # Triton cuts a text out by itself
        ends += [fn.starting_line_number + len(fn.raw_src) - 1
                 for fn in builder.made.values() if hasattr(fn, "raw_src")]
        if not self.is_even or None in ends:
            return 0
        return next((line for line in map(line_of, self.tree.body) if line > max(ends)), 0)


def options_of(backend, given):
    for name, value in given.items():
        if name in NULL_OPTIONS and value not in (None, ""):
            raise Unsupported(f"compiler option {name}")
    return backend.parse_options({k: v for k, v in given.items() if k in COMPILER_OPTIONS})


def rebuild(source, text, goal):
    """One recipe: (TTIR text, name, options, up to which line the text counts)."""
    recipe = json.loads(text)
    builder = Builder(source.functions, recipe)
    Card.target = goal
    try:
        if recipe["entry"] < 0:
            raise Unsupported("the kernel is no function of the candidate's text")
        fn = builder.function(recipe["entry"])
        fn.repr = lambda _: recipe["name"]
        constants = {tuple(path): builder.value(v, builder.function) for path, v in recipe["constants"]}
        attrs = {tuple(path): [[a, n] for a, n in pairs] for path, pairs in recipe["attrs"]}
        src = ASTSource(fn, {k: type_of(v) for k, v in recipe["signature"]}, constants, attrs)
        options = options_of(make_backend(goal), recipe["options"])
        return (without_folders(ttir_text(src, options, goal)), src.fn.__name__, options,
                source.until(builder))
    finally:
        builder.evaluator.close()


def prepare(source):
    """The candidate's text becomes what inspect finds under its name; nothing is executed."""
    module = types.ModuleType("candidate")
    module.__file__ = SOURCE_NAME
    sys.modules["candidate"] = module
    linecache.cache[SOURCE_NAME] = (len(source), None, lines_of(source), SOURCE_NAME)
    return Text(source)


def rebuild_all(source, recipes, capability, wants_ttir=False):
    """For each recipe what its IR has to be, and the IR itself where that is wanted, or why it
    cannot be said. `source`: what prepare made, with what was said of it before."""
    for text in recipes:
        if text not in source.said:
            source.said[text] = answer(source, text, capability)
    hidden = () if wants_ttir else ("ttir",)
    return [{name: value for name, value in source.said[text].items() if name not in hidden} for text in recipes]


def answer(source, text, capability):
    try:
        ttir, name, options, until = rebuild(source, text, target(capability))
        return {"sha256": hashlib.sha256(ttir.encode()).hexdigest(), "ttir": ttir, "name": name,
                "until": until, "num_warps": options.num_warps, "num_stages": options.num_stages,
                "num_ctas": options.num_ctas, "maxnreg": options.maxnreg or 0,
                "enable_fp_fusion": options.enable_fp_fusion, "enable_reflect_ftz": options.enable_reflect_ftz,
                "launch_cooperative_grid": options.launch_cooperative_grid, "launch_pdl": options.launch_pdl}
    except Exception as error:
        while isinstance(error.__cause__, Exception) and not isinstance(error, Unsupported):
            error = error.__cause__
        return {"fault": reason_of(error), "block": is_no_block(error)}


# Triton's words for a dimension of a block that is no power of two, and where it says them.
BLOCK_REFUSALS = {os.path.join("triton", "language", "semantic.py"): re.compile(r"arange's range must be a power of 2"),
                  os.path.join("triton", "_utils.py"): re.compile(r"Shape element \d+ must be a power of 2")}


def is_no_block(error):
    """Whether Triton itself refuses a block because a dimension is no power of two: not what a
    kernel's own text asserts in the same words."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    file = tb.tb_frame.f_code.co_filename if tb is not None else ""
    return type(error) is ValueError and any(file.endswith(place) and words.fullmatch(str(error))
                                             for place, words in BLOCK_REFUSALS.items())


def reason_of(error):
    """What is wrong, and of the compiler's errors the line of the kernel, without its text."""
    if isinstance(error, CompilationError):
        line = getattr(error.node, "lineno", "?")
        return f"line {line} of the function: {error.error_message or type(error).__name__}"[:500]
    return f"{'' if isinstance(error, Unsupported) else type(error).__name__ + ': '}{error}"[-500:]


WARM_SOURCE = """import triton
import triton.language as tl

@triton.jit
def warm(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, v / tl.sum(tl.exp(v - tl.max(v, axis=0)), axis=0), mask=i < n)
"""


def warm(times):
    """In the zygote: the front end's tables are built once, and its code runs so often."""
    function = {"kind": "jit", "name": "warm", "qualname": "warm", "module": "candidate", "line": 4, "noinline": False,
                "defaults": [], "kwdefaults": {}, "names": {"tl": ["module", "triton.language"]}}
    recipe = {"functions": [function], "entry": 0, "name": "warm",
              "signature": [["x", "*fp32"], ["n", "i32"], ["BLOCK", "constexpr"]], "constants": [[[2], ["scalar", 64]]],
              "attrs": [], "options": {}}
    for _ in range(times):
        (result,) = rebuild_all(prepare(WARM_SOURCE), [json.dumps(recipe)], 90)
        if "fault" in result:
            raise RuntimeError(f"the front end does not work: {result['fault']}")
    del sys.modules["candidate"], linecache.cache[SOURCE_NAME]
