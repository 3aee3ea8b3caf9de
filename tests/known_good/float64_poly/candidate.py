import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def poly(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    acc = tl.full((BLOCK,), 4.0, tl.float64)
    for k in tl.static_range(3):
        acc = acc * v + (3 - k)
    tl.store(y + i, acc, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        poly[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
