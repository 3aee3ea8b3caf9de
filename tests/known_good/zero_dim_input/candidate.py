import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_by(x, s, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    f = tl.load(s)
    tl.store(y + i, tl.load(x + i, mask=i < n) * f, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, s):
        y = torch.empty_like(x)
        scale_by[(triton.cdiv(x.numel(), 64),)](x, s, y, x.numel(), BLOCK=64)
        return y
