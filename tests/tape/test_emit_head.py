"""What an emitted module does before its kernels run (worker/emit.py): a tensor may be a view into
larger memory, and is read where it begins; no annotation of a kernel's is computed; functions
that the compiler calls give the same in every process, and no function reaches further than what
was judged; calls and parameters of another form than the judged ones raise."""
import ast
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import torch

import emit
import emit_reach
import output_form
from command import check, done

space = {"__name__": "emitted"}
exec(emit.HEAD, space)
flat, view = space["_flat"], space["_view"]

# What is beside the tensors of forward's outputs comes back as it was, a float with all its digits.
def beside(out):
    return output_form.form_of(out, lambda v: v is memory)


class Lying(float):
    def __repr__(self):
        return "0.5"
    __str__ = __repr__
    def __format__(self, how):
        return "0.5"


memory = object()
out = (memory, 1 / 3, -1e-7, 7, True, None, "t's", {2: (memory, "1.5")})
found = emit.formed(ast.parse(beside(out), mode="eval").body, iter(["memory"] * 2))
check("numbers keep their digits", eval(found) == out, found)
check("a class writes no number as another", beside((memory, Lying(0.75))) == "(t, 0.75, )", beside((Lying(0.75),)))
long = [beside((memory, "a" * 5000 + end)) for end in "bc"]
check("long texts that differ at their end differ", long[0] != long[1] and len(long[0]) < 4200, len(long[0]))

# A view of 32 floats that begins at the 16th of 64: from its first element on, in any type.
memory = torch.arange(64, dtype=torch.float32)
part = memory[16:48].view(4, 8)
base = flat(part, 128)
check("a view is read where it begins", torch.equal(base, memory[16:48]), base)
found = view(base, 8, torch.float32, (3, 2), (8, 1))
check("an offset counts from there", torch.equal(found, part[:3, 2:4]), found)
found = view(base, 64, torch.int32, (4,), (1,))
check("so it does in another type", torch.equal(found, memory[32:36].view(torch.int32)), found)
view(base, 0, torch.float32, (2,), (1,)).fill_(-1)
check("what is written lands in the view", memory[16:18].eq(-1).all() and memory[:16].ge(0).all(), memory)

# Annotations: constants stay, since the compiler reads them; what is called or unknown goes.
text = "def kernel(x: torch.Tensor, n: host(), m: (tl.int32, tl.int64)[0], BLOCK: tl.constexpr): pass"
names = {"tl": ["module", "triton.language"], "torch": ["unknown", "module"]}
left = ast.unparse(emit.Unannotated(names).visit(ast.parse(text).body[0]))
check("no annotation is computed", left.startswith("def kernel(x, n, m: (tl.int32, tl.int64)[0], BLOCK: tl.constexpr)"),
      left)


NAMES = {"math": ["module", "math"], "WIDTH": ["scalar", 4], "sys": ["unknown", "module"],
         "tl": ["module", "triton.language"], "triton": ["module", "triton"], "cdiv": ["library", "triton", "cdiv"],
         "module": ["library", "triton.language.core", "builtins"],
         "own": ["names", "own", {"SIZE": ["scalar", 8], "tl": ["module", "triton.language"]}]}


def refusal(text):
    """Why a function that the compiler calls is not emitted; empty where it is."""
    try:
        emit.check_pure(ast.parse(text).body[0], NAMES)
        return ""
    except emit.Unsupported as error:
        return str(error)


# What gives the same everywhere is emitted.
for body in ("return int(math.log2(n)) + WIDTH", "import math\n    return max(x * 2 for x in range(n))",
             "def half(k):\n        return k // 2\n    return half(n)",
             "return cdiv(n, triton.next_power_of_2(own.SIZE))",
             "return n.bit_length() if n.name == tl.float32.name else own.tl.int32.primitive_bitwidth",
             "open = n + 1\n    return [id for id in range(open)]"):
    found = refusal(f"def f(n, *, k=1):\n    {body}")
    check(f"emitted: {body[-30:]!r}", found == "", found)
# What could ask where it runs is not.
for body in ("import sys\n    return len(sys.modules)", "return len(sys.modules)", "return __import__('os').getpid()",
             "return getattr(n, '_x')", "return n.__class__", "from os import getpid\n    return getpid()",
             "import math as m, os\n    return 1", "return open('/x')", "return id(n)",
             # a name that another function has: Python looks for this one outside
             "def g(exec):\n        return exec\n    return exec('1')", "[open for open in ()]\n    return open('/x')",
             "class A:\n        exec('1')\n        exec = 1\n    return n", "global exec\n    exec = 1\n    return n",
             # what lies behind a module, a frame or a private name
             "return tl.core.builtins.exec('1')", "return own.tl.core.builtins.exec('1')", "return module.exec('1')",
             "return [tl][0].core.builtins", "m = tl\n    return m.core", "return tl.sum(n)", "return triton.knobs.os",
             "return (x for x in ()).gi_frame.f_builtins['exec']", "return cdiv.fn.__globals__", "return own"):
    check(f"refused: {body[-40:]!r}", refusal(f"def f(n):\n    {body}") != "")


def reached(body):
    """(why a kernel is not emitted, or empty; the names that have no value in the module)"""
    try:
        return "", emit_reach.check_kernel(ast.parse(f"def k(x, n):\n    {body}").body[0], NAMES, emit.MODULES)
    except emit.Unsupported as error:
        return str(error), []


# A branch that was not taken here may be taken for another card.
for body in ("tl.store(x, tl.sum(tl.math.exp(n)) * math.pi)", "y = own.tl.float32\n    tl.store(x, n.to(y))",
             "tl.store(x, getattr(n, 'T') if hasattr(n, 'T') else min(n, WIDTH))"):
    check(f"a kernel: {body[-30:]!r}", reached(body) == ("", []), reached(body))
for body in ("tl.core.builtins.exec('1')", "triton.knobs.os.system('1')", "f(tl)", "getattr(tl.core, 'os')",
             "module.exec('1')", "y = n.__class__", "if n:\n        _importlib.x()\n    _importlib = 1",
             "own.tl.core.inspect.x()"):
    check(f"no kernel: {body[-30:]!r}", reached(body)[0] != "", reached(body))
found = reached("if n:\n        torch.system(sys, exec)\n    acc = len(n)\n    tl.store(x, acc)")
check("what has no value there has none in the module", found == ("", ["exec", "sys", "torch"]), found)

# The forms of calls. No tensor of these is on CUDA, so that one stands in.
class Cuda(torch.Tensor):
    is_cuda = True


def fits(value, wanted):
    tensors = []
    return space["_fits"](value, wanted, tensors), tensors


a, b = torch.zeros(2, 3).as_subclass(Cuda), torch.ones(2, 3).as_subclass(Cuda)
tensor = {"tensor": {"shape": [2, 3], "stride": [3, 1], "dtype": "float32"}}
judged = emit.form_of([{"dict": {"a": tensor, "b": tensor}}, 1, {"tuple": [tensor, None]}, {"float": "inf"},
                       {"dtype": "bfloat16"}])
call = [{"a": a, "b": b}, 1, (b, None), math.inf, torch.bfloat16]
found, tensors = fits(call, judged)
check("a call as it was judged", found and [t is u for t, u in zip(tensors, (a, b, b))] == [True] * 3, found)
found, tensors = fits([{"b": b, "a": a}, *call[1:]], judged)
check("keys are found by name", found and tensors[0] is a and tensors[1] is b, tensors)
on_the_host = [{"a": a, "b": b[:].as_subclass(torch.Tensor)}, *call[1:]]
for what, other in (("a text for a number", [call[0], "1", *call[2:]]),
                    ("a truth for a number", [call[0], True, *call[2:]]),
                    ("a list for a tuple", [*call[:2], [b, None], *call[3:]]), ("one value less", call[:-1]),
                    ("other keys", [{"a": a, "c": b}, *call[1:]]), ("a number elsewhere", [1, call[0], *call[2:]]),
                    ("another type", [*call[:-1], torch.float16]), ("a tensor that is on no card", on_the_host),
                    ("strides", [{"a": a, "b": torch.ones(3, 2).t().as_subclass(Cuda)}, *call[1:]])):
    check(f"refused: {what}", not fits(other, judged)[0])
check("and as it was judged again", fits(call, judged)[0])

# Parameters by what lies in memory, not by their values.
root = torch.nn.Module()
root._layouts = {}
space["_put"](root, "inner.weight", torch.ones(2, 3))
root.inner.weight.fill_(2)
check("another value", space["_get"](root, "inner.weight").eq(2).all())
for what, change in (("type", torch.nn.Module.double), ("strides", lambda m: setattr(
        m.inner, "weight", torch.nn.Parameter(torch.ones(3, 2).t())))):
    change(root)
    try:
        space["_get"](root, "inner.weight")
        check(f"parameters of another {what} are refused", False)
    except ValueError as error:
        check(f"parameters of another {what} are refused", "inner.weight" in str(error), error)
    root.inner.weight = torch.nn.Parameter(torch.ones(2, 3))
# Defaults are the recipe's values; the text's expressions are not computed again.
text = """@triton.jit
def k(x, n=host(1), *, Z: tl.constexpr = host(2), W: tl.constexpr = host(3)):
    tl.store(x, own.SIZE + odd)
"""
entry = {"kind": "jit", "name": "k", "line": 1, "names": {**NAMES, "host": ["unknown", "function"]},
         "defaults": [["scalar", 1]], "kwdefaults": {"Z": ["dtype", "fp32"]}}
emitter = emit.Emitter({"name": "a test", "source": text})
emitter.function({"functions": [entry]}, 0)
found = emitter.out[-1]
check("no default of the text's is computed", "host" not in found and "_default_Z = _tl.dtype('fp32')" in found
      and "n=1, *, Z: tl.constexpr=_default_Z, W: tl.constexpr" in found and "odd = None" in found, found)
check("a namespace may hold a name", space["_module"]("own", **{"name": 3}).name == 3)
done()
