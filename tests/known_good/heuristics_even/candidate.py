import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics({
    "EVEN": lambda args: args["n"] % args["BLOCK"] == 0,
    "num_warps": lambda args: 4 if args["n"] < 4096 else 8,
})
@triton.jit
def lorentz(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        v = tl.load(x + i)
        tl.store(y + i, 1 / (v * v + 1))
    else:
        v = tl.load(x + i, mask=i < n)
        tl.store(y + i, 1 / (v * v + 1), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lorentz[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
