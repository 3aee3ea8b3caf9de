import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def cumprod_kernel(x_ptr, y_ptr, L, INNER, BLOCK_L: tl.constexpr, BLOCK_I: tl.constexpr):
    outer = tl.program_id(0)
    l = tl.arange(0, BLOCK_L)
    i = tl.program_id(1) * BLOCK_I + tl.arange(0, BLOCK_I)
    mask = (l < L)[:, None] & (i < INNER)[None, :]
    offs = outer * L * INNER + l[:, None] * INNER + i[None, :]
    v = libdevice.tanh(tl.load(x_ptr + offs, mask=mask, other=0.0)) + 0.5
    tl.store(y_ptr + offs, tl.cumprod(v, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        a, b, c = x.shape
        y = torch.empty_like(x)
        cumprod_kernel[a, triton.cdiv(c, 4)](x, y, b, c, BLOCK_L=triton.next_power_of_2(b), BLOCK_I=4)
        return y
