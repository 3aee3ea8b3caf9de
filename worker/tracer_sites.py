"""tracer_sites: where a candidate's text decides something by numbers, and the same text with these
places reporting what they decided.

A *site* is a place whose result may depend on a size: a comparison, a condition, a subscript, a
quotient, a remainder, bits, a call of a function that makes numbers of numbers. Host code is
rewritten: at each site a recorder is told operands and result, and values stay what they are.
Kernels are not executed here; their sites are the expressions that follow from arguments alone,
through names that are assigned once and through calls of other jitted functions, and are evaluated
with each launch's arguments.
"""
import ast
import collections
import contextlib
import copy
import math
import sys
import types

import numpy
import torch

from tracer_record import SOURCE_NAME

RECORDER = "<the recorder of what conditions decide>"      # stands for it in rewritten host code
GRID = "__programs"          # and the axis: how many programs a launch has, for a kernel that asks
LIBRARIES = frozenset({"torch", "nn", "F", "triton", "tl", "super", "libdevice"})
TENSOR_METHODS = frozenset(name for name in dir(torch.Tensor) if not name.startswith("_"))
WHOLE = (ast.FloorDiv, ast.Mod, ast.RShift, ast.LShift, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Pow)
LEAF_CALLS = frozenset({"numel", "size", "dim", "stride", "element_size", "nelement"})
DEPTH = 6                    # of names behind names
DEEP = 10000                 # calls: a text that Python could import is no deeper, rewritten
LEAVES_MAX = 12


@contextlib.contextmanager
def deep():
    """While syntax trees are walked: a sum of 2,500 terms is as many calls deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEP)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class Site:
    """One place. kind: "way", whose results are few and each is a way that the code goes; "case",
    which is reached or not; "value", whose result is a number, and says something only where it
    never changed. `text`: the expression
    as far as it could be followed, over `leaves` (texts of expressions that are known where it is
    evaluated); None where it is too wide."""

    def __init__(self, line, kind, text=None, leaves=()):
        self.line, self.kind, self.text, self.leaves = line, kind, text, leaves


def is_jitted(node):
    return isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d).split("(")[0].split(".")[-1]
                                                     for d in node.decorator_list)


def root_of(node):
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def is_leaf(node):
    """A name, an attribute's chain, or what a tensor says of its form."""
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Attribute):
        return is_leaf(node.value)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, (ast.Constant, ast.UnaryOp)) and is_leaf(node.value)
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEAF_CALLS
            and all(isinstance(a, (ast.Constant, ast.UnaryOp)) for a in node.args) and is_leaf(node.func.value))


def parts_of(node):
    """What an expression is made of; of a method's call the object, unless a tensor has such a
    method: what it gives then is the tensor's own."""
    if isinstance(node, ast.Call) and is_method(node.func):
        return [node.func.value, *node.args, *node.keywords]
    return ast.iter_child_nodes(node)


def is_method(function):
    return isinstance(function, ast.Attribute) and function.attr not in TENSOR_METHODS


def bound_in(node):
    """Names that an expression binds itself: comprehensions' and lambdas'."""
    return {n.id if isinstance(n, ast.Name) else n.arg for n in ast.walk(node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) or isinstance(n, ast.arg)}


def assignments(function):
    """{name: expression} of the names that a function binds once, by an assignment or a pattern; of
    what is taken apart each name is a part."""
    found, often = {}, collections.Counter()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            part_of(node.targets[0], node.value, found)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            part_of(node.target, node.value, found)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                part_of(case.pattern, node.subject, found)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) or isinstance(node, ast.MatchAs):
            often[getattr(node, "id", None) or node.name] += 1
    parameters = {a.arg for a in arguments_of(function)}
    return {name: value for name, value in found.items() if name and often[name] == 1 and name not in parameters}


def part_of(target, value, found):
    """What the names of a target, or of a pattern, are bound to."""
    parts = getattr(target, "elts", None) or getattr(target, "patterns", None)
    if isinstance(target, (ast.Name, ast.MatchAs)):
        found[getattr(target, "id", None) or target.name] = value
    elif parts and not any(isinstance(p, (ast.Starred, ast.MatchStar)) for p in parts):
        elements = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parts) else [
            ast.Subscript(value, ast.Constant(i), ast.Load()) for i in range(len(parts))]
        for part, element in zip(parts, elements):
            part_of(part, element, found)


def arguments_of(function):
    a = function.args
    return a.posonlyargs + a.args + a.kwonlyargs


# ---- host code ----

class Host(ast.NodeTransformer):
    """Rewrites what is no kernel. `sites` grows by one for each place."""

    def __init__(self):
        self.sites = []
        self.known = [{}]        # of the enclosing functions: names that are bound once
        self.is_grid = 0         # inside of kernel[...]: a quotient there counts programs

    def site(self, node, kind):
        leaves = {}
        self.collect(node, leaves, DEPTH, bound_in(node))
        text = ast.unparse(node) if len(leaves) <= LEAVES_MAX else None
        self.sites.append(Site(node.lineno, kind, text, leaves if text else {}))
        return ast.Constant(len(self.sites) - 1)

    def collect(self, node, leaves, depth, bound):
        """{text: text of what it is bound to, or None} of all that an expression is made of, and of
        what that is made of."""
        if is_leaf(node) and root_of(node) not in bound:
            text = ast.unparse(node)
            value = self.known[-1].get(text)
            if text not in leaves:
                leaves[text] = ast.unparse(value) if value is not None else None
                if value is not None and depth:
                    self.collect(value, leaves, depth - 1, bound | bound_in(value))
            return
        for child in parts_of(node):
            self.collect(child, leaves, depth, bound)

    def report(self, method, site, *args):
        return ast.Call(ast.Attribute(ast.Constant(RECORDER), method, ast.Load()),
                        [site, self.leaf_values(site.value), *args], [])

    def leaf_values(self, site):
        """A function without arguments for each leaf: some names are not bound on every way."""
        texts = list(self.sites[site].leaves)
        one = lambda text: ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.parse(text, mode="eval").body)
        return ast.Tuple([one(t) for t in texts], ast.Load())

    def visit_FunctionDef(self, node):
        if is_jitted(node):
            # What heuristics and prunings ask is host code.
            for part in [p for d in node.decorator_list for p in ast.walk(d) if isinstance(p, ast.Lambda)]:
                part.body = self.visit(part.body)
            return node
        self.known.append({**self.known[-1], **assignments(node)})
        node.body = [self.visit(s) for s in node.body]
        self.known.pop()
        return node

    def visit_ClassDef(self, node):
        node.body = [self.visit(s) for s in node.body]
        return node

    def visit_AnnAssign(self, node):
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_Compare(self, node):
        if len(node.ops) == 1:
            k = self.site(node, "way")
            left, right = self.visit(node.left), self.visit(node.comparators[0])
            return self.report("compare", k, ast.Constant(type(node.ops[0]).__name__), left, right)
        return self.truth(node)

    def truth(self, node):
        """A condition: its sides are the ways. What is a site already says so itself."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Compare) and len(node.ops) == 1 or isinstance(node, ast.BoolOp):
            return self.visit(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self.truth(node.operand)
            return node
        k = self.site(node, "way")
        return self.report("truth", k, node if isinstance(node, ast.Compare) else self.visit(node))

    def visit_BoolOp(self, node):
        node.values = [self.truth(v) for v in node.values]
        return node

    def visit_IfExp(self, node):
        return ast.IfExp(self.truth(node.test), self.visit(node.body), self.visit(node.orelse))

    def visit_If(self, node):
        node.test = self.truth(node.test)
        node.body, node.orelse = [self.visit(s) for s in node.body], [self.visit(s) for s in node.orelse]
        return node

    visit_While = visit_If

    def visit_Assert(self, node):
        node.test = self.truth(node.test)
        return node

    def visit_Match(self, node):
        """Which case was taken."""
        for case in node.cases:
            case.guard = self.truth(case.guard) if case.guard else None
            k = self.site(ast.copy_location(ast.Constant(True), case.pattern), "case")
            first = ast.Expr(self.report("truth", k, ast.Constant(True)))
            case.body = [first, *[self.visit(s) for s in case.body]]
        node.subject = self.visit(node.subject)
        return node

    def reached(self, node, kind="case", method="reached", *args):
        """A statement that tells that the code came there."""
        k = self.site(ast.copy_location(ast.Constant(True), node), kind)
        return k.value, ast.copy_location(ast.Expr(self.report(method, k, *args)), node)

    def visit_ExceptHandler(self, node):
        """What an exception decides."""
        node.body = [self.reached(node)[1], *[self.visit(s) for s in node.body]]
        return node

    def visit_Try(self, node):
        """And that there was none."""
        node = self.generic_visit(node)
        node.body.append(self.reached(node)[1])
        return node

    def visit_For(self, node):
        """Whether there was anything to go through."""
        given = getattr(node.iter, "args", [node.iter])
        is_open = any(is_leaf(part) for argument in given for part in ast.walk(argument))
        node.iter = self.visit(node.iter)
        node.body = [*([self.reached(node)[1]] if is_open else []), *[self.visit(s) for s in node.body]]
        node.orelse = [self.visit(s) for s in node.orelse]
        return node

    def visit_With(self, node):
        """Whether its end was reached, where its manager may swallow an exception."""
        node.items = [self.visit(i) for i in node.items]
        inside, end = self.reached(node)
        node.body = [*[self.visit(s) for s in node.body], end]
        behind = self.reached(node, "way", "ended", ast.Constant(inside))[1]
        return ast.copy_location(ast.If(ast.Constant(True), [node, behind], []), node)

    def visit_comprehension(self, node):
        node.iter = self.visit(node.iter)
        node.ifs = [self.truth(i) for i in node.ifs]
        return node

    def visit_BinOp(self, node):
        k = self.site(node, "value") if isinstance(node.op, WHOLE) and not self.is_grid else None
        # A divisor of zero is an exception, which somebody may catch.
        is_divisor = isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)) and not is_leaf(node.right)
        node.left, node.right = self.visit(node.left), self.truth(node.right) if is_divisor else self.visit(node.right)
        return self.report("value", k, node) if k else node

    def visit_Subscript(self, node):
        if not isinstance(node.ctx, ast.Load) or is_leaf(node) or isinstance(node.slice, ast.Slice):
            return self.generic_visit(node)
        k = self.site(node, "value")
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        return self.report("value", k, node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Subscript):         # kernel[grid](...)
            self.is_grid += 1
            node.func.slice = self.visit(node.func.slice)
            self.is_grid -= 1
            node.args, node.keywords = [self.visit(a) for a in node.args], [self.visit(w) for w in node.keywords]
            return node
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and len(node.args) > 1 and not any(
                isinstance(a, ast.Starred) for a in node.args) and not node.keywords:
            k = self.site(node, "way")
            return self.report("extreme", k, node.func, *[self.visit(a) for a in node.args])
        k = self.site(node, "value") if makes_numbers(node) else None
        node = self.generic_visit(node)
        return self.report("value", k, node) if k else node


BUILTINS = frozenset({"int", "len", "bool", "min", "max", "any", "all", "hash", "sum", "pow", "abs", "round", "float",
                      "ord", "next", "divmod", "str", "bin", "hex", "oct", "format", "repr"})


def makes_numbers(call):
    """Whether a call may make a number of numbers, by its name: what torch and Triton have does
    not, and the candidate's own functions have sites themselves."""
    if isinstance(call.func, ast.Name):
        return call.func.id in BUILTINS
    if not isinstance(call.func, ast.Attribute):
        return False
    if isinstance(call.func.value, ast.Name) and call.func.value.id == "self":
        return False
    root = root_of(call.func.value)
    return root not in LIBRARIES and (call.func.attr not in TENSOR_METHODS or root in ("math", "operator", "cmath"))


def reporting(tree, recorder):
    """The code of a rewritten tree. The recorder is among its constants: no name leads to it."""
    def told(code):
        return code.replace(co_consts=tuple(recorder if c == RECORDER else told(c) if isinstance(c, types.CodeType)
                                            else c for c in code.co_consts))
    return told(compile(ast.fix_missing_locations(tree), SOURCE_NAME, "exec", dont_inherit=True))


# ---- kernels ----

class Open(Exception):
    """An expression does not follow from a kernel's arguments."""


SHIM_CALLS = {"cdiv": lambda a, b: -(-a // b), "minimum": min, "maximum": max, "min": min, "max": max, "abs": abs,
              "int": int, "bool": bool, "where": lambda c, a, b: a if c else b, "constexpr": lambda v: v,
              "next_power_of_2": lambda n: 1 << max(n - 1, 0).bit_length(), "static_assert": None,
              "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt, "exp": math.exp, "exp2": lambda x: 2.0 ** x,
              "log": math.log, "log2": math.log2, "sin": math.sin, "cos": math.cos}
# What makes one number of a block of places: their count under a mask is a size.
BLOCK_CALLS = {"sum": lambda x: x.sum().item(), "max": lambda x: x.max().item(), "min": lambda x: x.min().item(),
               "xor_sum": lambda x: int(numpy.bitwise_xor.reduce(x)), "argmax": lambda x: x.argmax().item(),
               "argmin": lambda x: x.argmin().item()}
IN_BLOCK_CALLS = {"arange": lambda a, b: numpy.arange(a, min(b, a + BLOCK_MAX)), "where": numpy.where,
                  "minimum": numpy.minimum, "maximum": numpy.maximum, "abs": numpy.abs}
BLOCK_MAX = 1 << 16
EXTREMES = {"minimum": "min", "maximum": "max", "min": "min", "max": "max"}


class Resolver(ast.NodeTransformer):
    """Follows names of a jitted function to its kernel's arguments."""

    def __init__(self, bound, own, local, module):
        self.bound, self.own, self.local, self.module, self.depth = bound, own, local, module, 0
        self.in_block = False

    def visit_Name(self, node):
        if node.id in self.bound:
            if self.bound[node.id] is None:
                raise Open
            return copy.deepcopy(self.bound[node.id])
        if node.id in self.own:
            if self.depth >= 2 * DEPTH:
                raise Open
            self.depth += 1
            made = self.visit(copy.deepcopy(self.own[node.id]))
            self.depth -= 1
            return made
        if node.id in self.local or node.id not in self.module:
            raise Open
        return node

    def visit_Call(self, node):
        """A cast of a whole number is itself; functions that make numbers of numbers have a
        stand-in."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if name == "to" and isinstance(node.func, ast.Attribute):
            return self.visit(node.func.value)
        if name == "num_programs" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return ast.Name(f"{GRID}{node.args[0].value}", ast.Load())
        if name in BLOCK_CALLS and isinstance(node.func, ast.Attribute) and not self.in_block and node.args and (
                len(node.args) + len(node.keywords) < 3):
            self.in_block = True
            made = ast.Call(ast.Name(f"__block_{name}", ast.Load()), [self.visit(node.args[0])], [])
            self.in_block = False
            return made
        if self.in_block and name in IN_BLOCK_CALLS and not node.keywords:
            return ast.Call(ast.Name(f"__in_{name}", ast.Load()), [self.visit(a) for a in node.args], [])
        if SHIM_CALLS.get(name) is None or node.keywords:
            raise Open
        return ast.Call(ast.Name(f"__{name}", ast.Load()), [self.visit(a) for a in node.args], [])

    def visit_Attribute(self, node):
        if node.attr == "value":
            return self.visit(node.value)
        raise Open

    def visit_Lambda(self, node):
        raise Open

    visit_ListComp = visit_GeneratorExp = visit_NamedExpr = visit_Starred = visit_Lambda


def follow(node, *scope):
    try:
        return Resolver(*scope).visit(copy.deepcopy(node))
    except (Open, RecursionError):
        return None


class Kernel:
    """The sites of one jitted function and of those that it calls, over its own parameters."""

    def __init__(self, function, functions, module):
        self.parameters = [a.arg for a in arguments_of(function)]
        self.sites, self.codes, self.seen = [], [], set()
        self.known = {*self.parameters, *(f"{GRID}{axis}" for axis in range(3))}
        bound = {name: ast.Name(name, ast.Load()) for name in self.parameters}
        self.walk(function, bound, functions, module, 3)

    def walk(self, function, bound, functions, module, depth):
        own = assignments(function)
        local = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                self.add(node, "way", bound, own, local, module)
            elif isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(node.test, ast.Compare):
                self.add(node.test, "way", bound, own, local, module)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, WHOLE):
                self.add(node, "value", bound, own, local, module)
            elif isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
                if name in ("floor", "ceil"):
                    self.add(node, "value", bound, own, local, module)
                if name in EXTREMES and len(node.args) == 2:
                    self.add(ast.copy_location(ast.Compare(node.args[0], [ast.Lt()], [node.args[1]]), node), "way",
                             bound, own, local, module)
                if isinstance(node.func, ast.Name) and name in functions and depth:
                    self.walk(functions[name], self.bindings(node, functions[name], bound, own, local, module),
                              functions, module, depth - 1)

    def bindings(self, call, function, *scope):
        """What a called function's parameters are, over the kernel's; None: not known."""
        names = [a.arg for a in arguments_of(function)]
        made = dict.fromkeys(names)
        defaults = function.args.defaults
        made.update(zip(names[len(names) - len(defaults):], defaults))
        made.update((n, follow(a, *scope)) for n, a in zip(names, call.args))
        made.update((w.arg, follow(w.value, *scope)) for w in call.keywords if w.arg in made)
        return made

    def add(self, node, kind, *scope):
        made = follow(node, *scope)
        names = {n.id for n in ast.walk(made) if isinstance(n, ast.Name)} & self.known if made else ()
        text = ast.unparse(made) if names else ""
        if text and (node.lineno, text) not in self.seen:
            self.seen.add((node.lineno, text))
            self.sites.append(Site(node.lineno, kind, text, dict.fromkeys(sorted(names))))
            self.codes.append(compile(text, "site", "eval"))


class Text:
    """A candidate's text: the sites of its kernels, by name, and of its host code, with the tree of
    that rewritten."""

    def __init__(self, source):
        self.tree = ast.parse(source)
        functions = {n.name: n for n in ast.walk(self.tree) if is_jitted(n)}
        module = {t.id for s in self.tree.body if isinstance(s, (ast.Assign, ast.AnnAssign))
                  for t in (s.targets if isinstance(s, ast.Assign) else [s.target]) if isinstance(t, ast.Name)}
        self.kernels = {name: Kernel(node, functions, module) for name, node in functions.items()}
        host = Host()
        self.tree.body = [host.visit(s) for s in self.tree.body]
        self.host = host.sites


SHIMS = {f"__{name}": f for name, f in SHIM_CALLS.items() if f}
SHIMS |= {f"__block_{name}": f for name, f in BLOCK_CALLS.items()}
SHIMS |= {f"__in_{name}": f for name, f in IN_BLOCK_CALLS.items()}
SHIMS["math"] = math
