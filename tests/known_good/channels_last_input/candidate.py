import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine_nhwc(x, scale, shift, y, rows, C, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)[:, None]
    c = tl.arange(0, BC)[None, :]
    m = (r < rows) & (c < C)
    v = tl.load(x + r * C + c, mask=m)
    tl.store(y + r * C + c, v * tl.load(scale + c, mask=c < C) + tl.load(shift + c, mask=c < C), mask=m)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        if not x.is_contiguous(memory_format=torch.channels_last):
            x = x.to(memory_format=torch.channels_last)
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        rows = n * h * w
        affine_nhwc[(triton.cdiv(rows, 8),)](x, self.scale, self.shift, y, rows, c, BR=8, BC=triton.next_power_of_2(c))
        return y
