"""Blocks of 32 without a mask, behind an assertion that rows are multiples of it."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _silu(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, v / (1.0 + tl.exp(-v)))


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.shape[-1] % 32 == 0, "hidden size has to be divisible by 32"
        y = torch.empty_like(x)
        _silu[(x.numel() // 32,)](x, y, BLOCK=32)
        return y
