import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bce(x, y, o, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i)
    b = tl.load(y + i)
    l = tl.maximum(a, 0.0) - a * b + tl.log(1.0 + tl.exp(-tl.abs(a)))
    tl.store(o, tl.sum(l, axis=0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        o = torch.empty((), dtype=x.dtype, device=x.device)
        bce[(1,)](x, y, o, n=x.numel())
        return o
