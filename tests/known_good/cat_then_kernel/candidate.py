import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def exp_(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.exp(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        x = torch.cat([a, b], dim=1)
        exp_[(triton.cdiv(x.numel(), 32),)](x, x.numel(), BLOCK=32)
        return x
