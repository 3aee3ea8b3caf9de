import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def huber(p, t, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.abs(tl.load(p + i, mask=i < n, other=0.0) - tl.load(t + i, mask=i < n, other=0.0))
    tl.store(o + i, tl.where(d < 1.0, 0.5 * d * d, d - 0.5), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, p, t):
        o = torch.empty_like(p)
        huber[(triton.cdiv(p.numel(), 32),)](p, t, o, p.numel(), BLOCK=32)
        return o
