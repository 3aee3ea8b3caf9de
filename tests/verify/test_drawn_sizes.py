"""Tasks that draw sizes (lengths, edges of a graph): all seeds give inputs of one form, with floats
of their own. What a constructor reads from the module stays when sizes change. Draws of forward are
told apart by what they draw, under which seed and where (worker/draw_law.py). Complex inputs are
the task's fault."""
import os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]
import torch

import oracle
import oracle_inputs
from command import check, done
from oracle_pack import Fault
from oracle_reference import Reference, form_of_call

HEAD = "import torch\nimport torch.nn as nn\nN, D = 12, 16\n"
TAIL = "\ndef get_init_inputs():\n    return []\n"
RAGGED = HEAD + """
class Model(nn.Module):
    def forward(self, x, ends, longest):
        return x * longest + ends.sum()
def get_inputs():
    lengths = torch.randint(0, 30, (N,))
    return [torch.randn(int(lengths.sum()), D), lengths.cumsum(0), int(lengths.max())]
""" + TAIL

reference = Reference(RAGGED, 42)
calls = [reference.inputs(seed) for seed in range(5)]
check("one form under all seeds", all(form_of_call(c) == form_of_call(calls[0]) for c in calls))
check("and floats of their own", all(not torch.equal(c.args[0], calls[0].args[0]) for c in calls[1:]))
check("lengths that belong to them", all(int(c.args[1][-1]) == c.args[0].shape[0] for c in calls))
domains = oracle.Variant(Reference(RAGGED, 42), "stock", {}, 7).domains
check("whole numbers that tell of sizes are neither defaults nor drawn anew",
      all(not d.is_fixed and d.asked is None for d in domains))

# Sizes.
BUILT = HEAD + """
class Part(nn.Module):
    def __init__(self, {argument}):
        super().__init__()
        self.w = nn.Parameter(torch.randn({size}))
class Model(nn.Module):
    def __init__(self, d=0):
        super().__init__()
        self.part = Part(d)
    def forward(self, x):
        return x * self.part.w
def get_inputs():
    return [torch.randn(N, D)]
def get_init_inputs():
    return [{given}]
"""
names = lambda text: {s.name for built in (False, True) for g in oracle_inputs.constant_groups(text, built) for s in g}
check("a size that the constructor reads stays", names(BUILT.format(argument="d", size="D", given="")) == {"N"})
check("its defaults too", names(BUILT.format(argument="d=D", size="d", given="")) == {"N"})
check("but not one that it is given", names(BUILT.format(argument="d", size="D", given="D")) == {"N", "D"})

# Draws.
NOISY = HEAD + """
class Model(nn.Module):
    def forward(self, x):
        {first}
        return x + {draw}
def get_inputs():
    return [torch.randn(N, D)]
""" + TAIL


def drawn(draw, first="pass"):
    return oracle.Variant(Reference(NOISY.format(draw=draw, first=first), 42), "stock", {}, 7).drawn


law = lambda draw: drawn(draw)[0]["law"]
check("laws", law("torch.randn_like(x)") == law("torch.empty_like(x).normal_()") == "normal(0, 1)"
      and law("torch.rand_like(x)") == law("torch.empty_like(x).uniform_(0, 1)") == "uniform(0, 1)"
      and law("torch.empty_like(x).normal_(1, 2)") == "normal(1, 2)"
      and law("torch.randint(2, 9, x.shape)") == "whole(2, 9)")
check("places", [drawn(d)[0]["place"] for d in ("torch.randn_like(x)", "torch.randn(x.shape).to(x.device)",
                                                "torch.randn(x.shape, device=x.device)")]
      == ["device", "host", "device"])
seeds = lambda draw, first: [d["seed"] for d in drawn(draw, first)]
check("seeds", seeds("torch.randn_like(x)", "pass") == [None]
      and seeds("torch.randn_like(x) + torch.randn_like(x)", "torch.manual_seed(1)") == [[1, True], [1, False]]
      and seeds("torch.randn(x.shape, generator=g)", "g = torch.Generator().manual_seed(5)") == [[5, True]])

# Complex numbers.
COMPLEX = HEAD + """
class Model(nn.Module):
    def forward(self, x):
        return x.abs()
def get_inputs():
    return [torch.randn(N, dtype=torch.complex64)]
""" + TAIL
try:
    oracle.Variant(Reference(COMPLEX, 42), "stock", {}, 7).describe()
    code = ""
except Fault as e:
    code = e.code
check("complex inputs are the task's", code == "task-unsupported")
done()
