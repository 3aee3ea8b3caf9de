import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) * tl.load(y + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        product[(triton.cdiv(z.numel(), 32),)](x, y, z, z.numel(), BLOCK=32)
        z[0].fill_(1.0)
        z[:, -1] = x[:, 0]
        return z
