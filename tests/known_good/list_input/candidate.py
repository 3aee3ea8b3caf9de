import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def axpy(x, y, o, alpha, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + alpha * tl.load(y + i, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, xs, alpha):
        x, y = xs
        o = torch.zeros_like(x)
        axpy[(triton.cdiv(x.numel(), 32),)](x, y, o, alpha, x.numel(), BLOCK=32)
        return o
