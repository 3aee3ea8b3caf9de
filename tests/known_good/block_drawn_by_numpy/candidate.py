import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCKS = np.random.RandomState(3).permutation([256, 512, 1024])


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * 2 + 1, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = int(np.random.RandomState(seed=5).choice(BLOCKS))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, self.block),)](x, out, n, BLOCK=self.block)
        return out
