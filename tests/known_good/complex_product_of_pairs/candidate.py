import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, 2)
    m = (i < n)[:, None]
    p = i[:, None] * 2 + j[None, :]
    a, b = tl.split(tl.load(x_ptr + p, mask=m, other=0.0))
    c, d = tl.split(tl.load(y_ptr + p, mask=m, other=0.0))
    tl.store(z_ptr + p, tl.join(a * c - b * d, a * d + b * c), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        n = x.numel() // 2
        kernel[(triton.cdiv(n, 256),)](x, y, z, n, BLOCK=256)
        return z
