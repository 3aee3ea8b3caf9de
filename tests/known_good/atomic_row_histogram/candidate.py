import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x, h, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(h + v, tl.full((BLOCK,), 1, tl.int32), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        h = torch.zeros(self.bins, dtype=torch.int32, device=x.device)
        count_kernel[(triton.cdiv(x.numel(), 128),)](x, h, x.numel(), BLOCK=128)
        return h
