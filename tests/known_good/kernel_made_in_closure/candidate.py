import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def minus(a, b):
    return a - b


@triton.jit
def apply_kernel(a, b, o, n, slope, COMBINE: tl.constexpr, BLOCK: tl.constexpr):
    """COMBINE is a jitted function handed over as a constant."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = COMBINE(tl.load(a + i, mask=i < n), tl.load(b + i, mask=i < n))
    tl.store(o + i, tl.where(v >= 0, v, slope * v), mask=i < n)


def make_launcher(combine):
    def run(a, b, slope):
        o = torch.empty_like(a)
        apply_kernel[(triton.cdiv(a.numel(), 64),)](a, b, o, a.numel(), slope, COMBINE=combine, BLOCK=64)
        return o

    return run


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope
        self.runs = [make_launcher(f) for f in (plus, minus)]

    def forward(self, x, y):
        return tuple(run(x, y, self.slope) for run in self.runs)
