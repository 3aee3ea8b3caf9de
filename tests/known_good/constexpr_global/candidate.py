import torch
import torch.nn as nn
import triton
import triton.language as tl


ALPHA: tl.constexpr = tl.constexpr(1.3)
BLOCK_SIZE = tl.constexpr(128)


@triton.jit
def elu(x, y, n):
    i = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tl.where(v > 0, v, ALPHA * (tl.exp(tl.minimum(v, 0.0)) - 1)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        elu[(triton.cdiv(x.numel(), 128),)](x, y, x.numel())
        return y
