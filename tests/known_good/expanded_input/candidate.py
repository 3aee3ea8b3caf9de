import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mul_rows(x, row, y, n_cols, x_stride, row_stride, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n_cols
    a = tl.load(x + r * x_stride + c, mask=m)
    b = tl.load(row + r * row_stride + c, mask=m)
    tl.store(y + r * n_cols + c, a * b, mask=m)


class ModelNew(nn.Module):
    def forward(self, x, row):
        row = row.expand(x.shape[0], -1)
        y = torch.empty_like(x)
        mul_rows[(x.shape[0],)](x, row, y, x.shape[1], x.stride(0), row.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
