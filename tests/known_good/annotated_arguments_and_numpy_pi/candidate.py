import torch
import torch.nn as nn
import triton
import triton.language as tl


import numpy as np


@triton.jit
def k(x: torch.Tensor, y: "torch.Tensor", n: np.int32, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v: torch.Tensor = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.sin(v * np.pi), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
