import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scatter_kernel(x_ptr, to_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    to = tl.load(to_ptr + row)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < cols
    x = tl.load(x_ptr + row * cols + offs, mask=mask)
    tl.store(out_ptr + to * cols + offs, libdevice.tanh(x), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, to):
        # every row is written, since no two indices are equal
        out = torch.empty_like(x)
        rows, cols = x.shape
        scatter_kernel[(rows, triton.cdiv(cols, 256))](x, to, out, cols, BLOCK=256)
        return out
