import torch
import torch.nn as nn
import triton
import triton.language as tl

# tune: ROWS = 1 | 2 | 4 | 8
# tune: WARPS = 1 | 2 | 4 | 8 | 16
ROWS = 1
WARPS = 16


@triton.jit
def fused_kernel(x_ptr, bias_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (i < cols)
    v = tl.load(x_ptr + row * cols + i, mask=mask, other=0.0) + tl.load(bias_ptr + i, mask=i < cols, other=0.0)
    v = tl.where(mask, v * tl.sigmoid(v), float("-inf"))
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(out_ptr + row * cols + i, e / tl.sum(e, axis=1)[:, None], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        fused_kernel[(triton.cdiv(rows, ROWS),)](x, self.bias, out, rows, cols, ROWS=ROWS,
                                                 BLOCK=triton.next_power_of_2(cols), num_warps=WARPS)
        return out
