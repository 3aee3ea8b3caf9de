"""emit_reach: what an emitted function may ask for (emit.py).

A kernel's text was judged by what the compiler made of it once, for one card, and a
constexpr_function by what it returned then. The module that is delivered lies elsewhere: branches
that were not taken may be taken there, and functions that the compiler calls run as Python in the
process of whoever imports it. So each function reaches its own names, what its recipe has a value
for, and what of Python and of Triton gives the same everywhere, and nothing behind these: no module
but Triton's language and math, no frame, no private name.
"""
import ast
import math
import symtable
import types

import triton.language as tl
from triton.runtime.jit import ConstexprFunction

import rebuild
from rebuild import Unsupported

# What of Python's own a function that the compiler calls may use: it gives the same everywhere.
PURE = frozenset("abs all any bool dict divmod enumerate filter float int isinstance len list map max min pow range "
                 "reversed round sorted str sum tuple zip ValueError TypeError AssertionError".split())
# What of Python's own a kernel has.
KERNELS_OWN = frozenset("len list range float int isinstance getattr hasattr print min max".split())
# What constants answer to.
OBJECT_NAMES = frozenset(n for v in (0, 0.0, "", (), [], {}, tl.float32, tl.constexpr(0), tl.pointer_type(tl.float32))
                         for n in dir(v) if not n.startswith("_"))
# Statements that read names by other rules than a function's, or that wait.
STRANGE = (ast.ClassDef, ast.Global, ast.Match, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await,
           ast.ImportFrom)


def chain_of(node):
    """(name, [attribute...]) of a name with attributes behind it; (None, ...) of another
    expression's."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else None), parts


def chains(node):
    """Each name of a function, with all attributes that follow it, and each other chain."""
    inner = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return [chain_of(n) for n in ast.walk(node)
            if isinstance(n, (ast.Name, ast.Attribute)) and id(n) not in inner and not isinstance(n.ctx, ast.Store)]


def follow(v, parts):
    """(what a recipe's value and attributes of it lead to, or None; attributes that are left). A
    module that a kernel may not reach is Unsupported, and so is one that stands for itself: its
    attributes could be asked for elsewhere."""
    parts = list(parts)
    while v[0] == "names" and parts:
        v = v[2].get(parts.pop(0), ["unknown", ""])
    if v[0] == "library" and v[1] in rebuild.HELPERS:
        return None, parts
    if v[0] not in ("module", "library", "names"):
        return None, parts
    found = rebuild.Builder({}, {"functions": []}).value(v, None) if v[0] != "names" else types.ModuleType(v[1])
    while isinstance(found, types.ModuleType) and parts and v[0] != "names":
        rebuild.check_module_attribute(found, parts[0])
        found = getattr(found, parts.pop(0), None)
    if isinstance(found, types.ModuleType):
        raise Unsupported(f"module {found.__name__} as a value")
    return found, parts


def is_constant(found):
    """Whether what a library has under a name may be used by a function that the compiler calls."""
    return (found is None or found is tl.dtype or found is tl.constexpr or any(found is v for v in vars(math).values())
            or isinstance(found, (bool, int, float, str, tl.dtype, ConstexprFunction)))


def free_names(node):
    """The names that a function and those inside of it look for outside of themselves, as Python
    resolves them."""
    tables, found = [symtable.symtable(ast.unparse(node), "function", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if table.get_type() == "function":
            found |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    return found


def check_pure(node, names):
    """Of a function that the compiler calls, which runs as Python where the module is imported, and
    was judged elsewhere. `names`: the recipe's."""
    what = f"function {node.name}, which the compiler calls,"
    for n in ast.walk(node):
        if isinstance(n, STRANGE) or isinstance(n, ast.Import) and any(a.name != "math" or a.asname for a in n.names):
            raise Unsupported(f"{what} has a statement that is not emitted: {ast.unparse(n).splitlines()[0][:60]}")
    known = {name: v for name, v in names.items() if v[0] != "unknown"}
    for name in sorted(free_names(node) - known.keys() - PURE):
        raise Unsupported(f"{what} uses {name}")
    fields = {f for v in known.values() if v[0].startswith("namedtuple") for f in v[2]}
    imports = {"math"} if any(isinstance(n, ast.Import) for n in ast.walk(node)) else set()
    for name, parts in chains(node):
        hidden = next((p for p in parts if p.startswith("_")), None)
        if hidden:
            raise Unsupported(f"{what} asks for {hidden}")
        found, left = follow(["module", "math"] if name in imports else known[name], parts) \
            if name in known or name in imports else (None, parts)
        strange = next((p for p in left if p not in OBJECT_NAMES | fields), None)
        if strange or not is_constant(found):
            raise Unsupported(f"{what} uses {'.'.join([name or '...', *parts])}")


def check_kernel(node, names, taken):
    """Of a kernel, whose branches another card may take. The names that its recipe has no value
    for: they get none in the module either, where something else may have their name. `taken`:
    names of the module's own, which the compiler finds where a kernel's is not assigned yet."""
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name in sorted(stored & taken):
        raise Unsupported(f"function {node.name} has a variable {name}, which is a module's name")
    for name, parts in chains(node):
        hidden = next((p for p in parts if p.startswith("__")), None)
        if hidden:
            raise Unsupported(f"function {node.name} asks for {hidden}")
        if name in names:
            follow(names[name], parts)
    for n in ast.walk(node):
        is_asking = isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("getattr", "hasattr")
        asked = names.get(chain_of(n.args[0])[0], [""])[0] if is_asking and n.args else ""
        if asked in ("module", "names", "library"):
            raise Unsupported(f"function {node.name} asks a module for a name that it computes")
    return sorted(free_names(node) - KERNELS_OWN - {name for name, v in names.items() if v[0] != "unknown"})
