import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 1.25, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        xf = x.to(torch.float32)
        y = torch.empty_like(xf)
        scale[(1,)](xf, y, xf.numel(), BLOCK=128)
        return y.to(x.dtype)
