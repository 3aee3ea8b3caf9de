import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def div_mod(x, y, n, d: tl.constexpr, r: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m, other=0)
    tl.store(y + i, v // d + v % r, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        div_mod[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), 7, 5, BLOCK=128)
        return y
