import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rope(x, cos, sin, y, T, D: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, D // 2)
    a, b = tl.load(x + row * D + i), tl.load(x + row * D + D // 2 + i)
    c, s = tl.load(cos + row % T * (D // 2) + i), tl.load(sin + row % T * (D // 2) + i)
    tl.store(y + row * D + i, a * c - b * s)
    tl.store(y + row * D + D // 2 + i, b * c + a * s)


class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
        B, H, T, D = x.shape
        y = torch.empty_like(x)
        rope[(B * H * T,)](x, cos, sin, y, T, D=D)
        return y
