import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums(x_ptr, s_ptr, n, cols, R: tl.constexpr, C: tl.constexpr):
    b = tl.program_id(0)
    r = b * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, C)[None, :]
    v = tl.load(x_ptr + r * cols + c, mask=(r < n) & (c < cols), other=0.0)
    o = tl.arange(0, C)
    tl.store(s_ptr + b * cols + o, tl.sum(v, 0), mask=o < cols)


@triton.jit
def scan(x_ptr, s_ptr, y_ptr, n, cols, R: tl.constexpr, C: tl.constexpr):
    b = tl.program_id(0)
    r = b * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, C)[None, :]
    o = tl.arange(0, C)
    carry = tl.zeros((C,), tl.float32)
    for k in range(0, b):
        carry += tl.load(s_ptr + k * cols + o, mask=o < cols, other=0.0)
    m = (r < n) & (c < cols)
    v = tl.load(x_ptr + r * cols + c, mask=m, other=0.0)
    tl.store(y_ptr + r * cols + c, tl.cumsum(v, 0) - v + carry[None, :], mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        n, cols = x.shape
        blocks = triton.cdiv(n, 32)
        C = triton.next_power_of_2(cols)
        s = torch.empty(blocks, cols, device=x.device)
        y = torch.empty_like(x)
        sums[(blocks,)](x, s, n, cols, R=32, C=C)
        scan[(blocks,)](x, s, y, n, cols, R=32, C=C)
        return y
