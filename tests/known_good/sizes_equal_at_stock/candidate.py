import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumprod_rows(x, y, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr):
    # Both sizes are constants of the program: where they are equal, it has one constant less.
    row = tl.program_id(0)
    carry = 1.0
    for start in range(0, COLS, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = (row < ROWS) & (i < COLS)
        v = tl.load(x + row * COLS + i, mask=mask, other=1.0)
        tl.store(y + row * COLS + i, tl.cumprod(v, axis=0) * carry, mask=mask)
        carry *= tl.reduce(v, 0, product)


@triton.jit
def product(a, b):
    return a * b


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, cols = x.shape
        y = torch.empty_like(x)
        cumprod_rows[(rows,)](x, y, rows, cols, BLOCK=128)
        return y
