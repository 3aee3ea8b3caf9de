import torch
import torch.nn as nn
import triton
import triton.language as tl
import torch.nn.functional as F


@triton.jit
def stencil(x, y, L, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < L
    p = x + r * (L + 2) + i
    tl.store(y + r * L + i, tl.load(p, mask=m) + tl.load(p + 1, mask=m) + tl.load(p + 2, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        xp = F.pad(x, (1, 1))
        y = torch.empty_like(x)
        stencil[(x.shape[0],)](xp, y, x.shape[1], BLOCK=32)
        return y
