"""What an emitted module does before its kernels run (worker/emit.py): a tensor may be a view into
larger memory, and is read where it begins; no annotation of a kernel's is computed; and functions
that the compiler calls give the same in every process."""
import ast
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import torch

import emit
from command import check, done

space = {"__name__": "emitted"}
exec(emit.HEAD.format(title="a test"), space)
flat, view = space["_flat"], space["_view"]

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


def refusal(text):
    """Why a function that the compiler calls is not emitted; empty where it is."""
    try:
        emit.check_pure(ast.parse(text).body[0], {"math": ["module", "math"], "WIDTH": ["scalar", 4],
                                                  "sys": ["unknown", "module"]})
        return ""
    except emit.Unsupported as error:
        return str(error)


# What gives the same everywhere is emitted.
for body in ("return int(math.log2(n)) + WIDTH", "import math\n    return max(x * 2 for x in range(n))",
             "def half(k):\n        return k // 2\n    return half(n)"):
    found = refusal(f"def f(n, *, k=1):\n    {body}")
    check(f"emitted: {body[-30:]!r}", found == "", found)
# What could ask where it runs is not.
for body in ("import sys\n    return len(sys.modules)", "return len(sys.modules)", "return __import__('os').getpid()",
             "return getattr(n, '_x')", "return n.__class__", "from os import getpid\n    return getpid()",
             "import math as m, os\n    return 1", "return open('/x')", "return id(n)"):
    check(f"refused: {body[-30:]!r}", refusal(f"def f(n):\n    {body}") != "")
done()
