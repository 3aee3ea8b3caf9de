import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_relu_(x, u, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n) + 0.5 * tl.load(u + i, mask=i < n)
    tl.store(x + i, tl.maximum(v, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, update):
        add_relu_[(triton.cdiv(x.numel(), 128),)](x, update, x.numel(), BLOCK=128)
        return x
