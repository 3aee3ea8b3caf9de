import torch
import triton
import triton.language as tl
from torch import nn


def softplus_source(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i, mask=i < n, other=0.0)
    tl.store(Y + i, tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x))), mask=i < n)


softplus_kernel = triton.jit(softplus_source)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softplus_kernel.run(x, y, x.numel(), grid=(triton.cdiv(x.numel(), 512),), warmup=False, BLOCK=512, num_warps=2)
        return y
