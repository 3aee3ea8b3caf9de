import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scan_row(x, y, length, BLOCK: tl.constexpr):
    base = tl.program_id(0) * length
    carry = tl.full((), 0.0, tl.float32)
    for start in tl.range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        m = i < length
        v = tl.load(x + base + i, mask=m, other=0.0)
        s = tl.cumsum(v, 0) + carry
        tl.store(y + base + i, s, mask=m)
        carry += tl.sum(v, 0)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        if dim != 1:
            raise ValueError("only dimension 1")
        self.dim = dim

    def forward(self, x):
        y = torch.empty_like(x)
        scan_row[(x.size(0),)](x, y, x.size(1), BLOCK=64)
        return y
