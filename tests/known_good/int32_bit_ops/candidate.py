import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bits(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(y + i, mask=m)
    tl.store(z + i, ((a ^ b) << 3) | (a & 0xFF), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        bits[(4,)](x, y, z, x.shape[0], BLOCK=256)
        return z
