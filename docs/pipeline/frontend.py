import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, bias_ptr, out_ptr, cols, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x_ptr + i, mask=mask) + tl.load(bias_ptr + i % cols, mask=mask)
    tl.store(out_ptr + i, v, mask=mask)


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x_ptr + i, mask=mask)
    tl.store(out_ptr + i, v * tl.sigmoid(v), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    v = tl.load(x_ptr + row * cols + i, mask=mask, other=float("-inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out_ptr + row * cols + i, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        rows, cols = x.shape
        n = x.numel()
        grid = (triton.cdiv(n, 256),)
        added, silu, out = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        add_kernel[grid](x, self.bias, added, cols, n, BLOCK=256)
        silu_kernel[grid](added, silu, n, BLOCK=256)
        softmax_kernel[(rows,)](silu, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out
