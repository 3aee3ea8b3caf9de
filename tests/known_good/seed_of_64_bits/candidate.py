"""A number with the highest of 64 bits set is unsigned: its upper two bits are 3, and not -1."""
import torch
import torch.nn as nn
import triton
import triton.language as tl

SEED = 0xC6A4A7935BD1E995


@triton.jit
def kernel(x, y, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * (seed >> 62).to(tl.float32), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, SEED, x.numel(), BLOCK=256)
        return y
