from math import *
import torch
from torch.nn import *
import triton
from triton import *
import triton.language as tl


@jit
def times3(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


class ModelNew(Module):
    def forward(self, x):
        y = torch.empty_like(x)
        times3[[ceil(x.numel() / 64)]](x, y, x.numel(), BLOCK=64)
        return y
