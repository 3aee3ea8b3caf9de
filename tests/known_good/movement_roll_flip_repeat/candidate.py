import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiply(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i, mask=i < n) * tl.load(b + i, mask=i < n), mask=i < n)


def mul(a, b):
    c = torch.empty_like(a)
    multiply[(triton.cdiv(a.numel(), 64),)](a, b, c, a.numel(), BLOCK=64)
    return c


class ModelNew(nn.Module):
    def forward(self, x):
        # torch moves, the kernel multiplies
        rolled = torch.cat([x[:, -2:], x[:, :-2]], dim=1)
        flipped = x.flip(0)
        top = mul(x, rolled)
        bottom = mul(x, flipped)
        return torch.cat([top, bottom], dim=0).repeat(1, 2)
