import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def two_sum(a, b):
    s = a + b
    bb = s - a
    e = (a - (s - bb)) + (b - bb)
    return s, e


@triton.jit
def k(X, Y, O, C, B: tl.constexpr):
    r = tl.program_id(0)
    s = tl.zeros([B], tl.float32)
    lo = tl.zeros([B], tl.float32)
    for i in range(0, C, B):
        o = i + tl.arange(0, B)
        x = tl.load(X + r * C + o, mask=o < C, other=0.0)
        y = tl.load(Y + r * C + o, mask=o < C, other=0.0)
        p = x * y
        pe = tl.fma(x, y, -p)
        s, e = two_sum(s, p)
        lo += e + pe
    tl.store(O + r, tl.sum(s + lo, 0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        o = torch.empty(x.shape[0], device=x.device)
        k[(x.shape[0],)](x, y, o, x.shape[1], B=32)
        return o
