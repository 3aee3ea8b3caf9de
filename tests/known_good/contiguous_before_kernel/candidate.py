import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v / (1.0 + tl.exp(-v)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous()
        y = torch.empty_like(x)
        silu[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
