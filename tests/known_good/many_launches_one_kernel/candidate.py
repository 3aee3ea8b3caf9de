import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2 + 1, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, xs):
        out = []
        for x in xs:
            y = torch.empty_like(x)
            affine[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
            out.append(y)
        return out
