import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_rows(x, weight, bias, y, channels, width, GROUPS: tl.constexpr, EPS: tl.constexpr, C: tl.constexpr, W: tl.constexpr):
    row = tl.program_id(0)
    own = channels // GROUPS
    c = tl.arange(0, C)[:, None]
    w = tl.arange(0, W)[None, :]
    total = 0.0
    for group in range(GROUPS):
        mask = (c < own) & (w < width)
        at = group * own + c
        v = tl.load(x + (row * channels + at) * width + w, mask=mask, other=0.0)
        count = own * width
        middle = tl.sum(v) / count
        d = tl.where(mask, v - middle, 0.0)
        scale = 1 / tl.sqrt(tl.sum(d * d) / count + EPS)
        g = tl.load(weight + at, mask=c < own, other=0.0)
        b = tl.load(bias + at, mask=c < own, other=0.0)
        total += tl.sum(tl.where(mask, d * scale * g + b, 0.0))
    tl.store(y + row, total / (channels * width))


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        rows, channels, width = x.shape
        y = torch.empty(rows, device=x.device, dtype=x.dtype)
        n = self.norm
        mean_rows[(rows,)](x, n.weight, n.bias, y, channels, width, n.num_groups, n.eps,
                           triton.next_power_of_2(channels // n.num_groups), triton.next_power_of_2(width))
        return y
