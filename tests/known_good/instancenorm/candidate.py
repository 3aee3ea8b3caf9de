import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def inorm(x, y, HW: tl.constexpr, eps: tl.constexpr, BLOCK: tl.constexpr):
    base = tl.program_id(0) * HW
    i = tl.arange(0, BLOCK)
    v = tl.load(x + base + i, mask=i < HW, other=0.0)
    mean = tl.sum(v, axis=0) / HW
    d = tl.where(i < HW, v - mean, 0.0)
    tl.store(y + base + i, d / tl.sqrt(tl.sum(d * d, axis=0) / HW + eps), mask=i < HW)


class ModelNew(nn.Module):
    def __init__(self, c):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        hw = x.shape[-1] * x.shape[-2]
        inorm[(x.shape[0] * x.shape[1],)](x, y, HW=hw, eps=1e-5, BLOCK=triton.next_power_of_2(hw))
        return y
