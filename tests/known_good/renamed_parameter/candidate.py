import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mul_cols(x, s, y, n, C, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(s + i % C, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gain = nn.Parameter(torch.full((n,), 0.5))

    def forward(self, x):
        y = torch.empty_like(x)
        mul_cols[(triton.cdiv(x.numel(), 64),)](x, self.gain, y, x.numel(), x.shape[1], BLOCK=64)
        return y
