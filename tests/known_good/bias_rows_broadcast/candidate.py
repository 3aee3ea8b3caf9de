import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_bias(x, b, y, rows, cols, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    p = r[:, None] * stride + c[None, :]
    bias = tl.load(b + c, mask=c < cols, other=0.0)
    tl.store(y + p, tl.load(x + p, mask=mask) + bias[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        add_bias[triton.cdiv(rows, 8), triton.cdiv(cols, 32)](x, self.bias, y, rows, cols, x.stride(0), BLOCK_M=8, BLOCK_N=32)
        return y
