import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gap(x, y, HW, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.program_id(0)
    tl.store(y + p, tl.sum(tl.load(x + p * HW + i, mask=i < HW, other=0.0), axis=0) / HW)


class ModelNew(nn.Module):
    def forward(self, x):
        N, C, H, W = x.size()
        y = torch.empty((N, C), device=x.device, dtype=x.dtype)
        gap[(N * C,)](x, y, H * W, BLOCK=64)
        return y[:, :, None, None]
