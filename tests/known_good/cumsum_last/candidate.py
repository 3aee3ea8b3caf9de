import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    carry = 0.0
    for s in range(0, n, BLOCK):
        i = s + tl.arange(0, BLOCK)
        v = tl.load(x + r * n + i, mask=i < n, other=0.0)
        tl.store(y + r * n + i, tl.cumsum(v, axis=0) + carry, mask=i < n)
        carry += tl.sum(v, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=32)
        return y
