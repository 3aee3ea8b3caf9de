import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def half_rows(x, y, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    if r >= rows // 2:
        return
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * cols + c, mask=c < cols)
    tl.store(y + r * cols + c, v * 3, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        half_rows[(x.shape[0],)](x, y, x.shape[0], x.shape[1], BLOCK=64)
        return y
