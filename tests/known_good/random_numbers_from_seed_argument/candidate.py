import torch
import torch.nn as nn
import triton
import triton.language as tl


# "dropout" with a given mask; random numbers are drawn by nobody, the seed is unused.
@triton.jit
def apply_dropout(x, keep, y, n, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    k = tl.load(keep + i, mask=m, other=0.0)
    tl.store(y + i, tl.where(k > 0.5, tl.load(x + i, mask=m) / (1 - p), 0.0), mask=m)


class ModelNew(nn.Module):
    seed = 1234

    def forward(self, x, keep):
        y = torch.empty_like(x)
        apply_dropout[(triton.cdiv(x.numel(), 128),)](x, keep, y, x.numel(), 0.5, BLOCK=128)
        return y
