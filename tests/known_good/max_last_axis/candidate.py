import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rowmax(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(y + r, tl.max(tl.load(x + r * n + i, mask=i < n, other=float("-inf")), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[:-1])
        rowmax[(y.numel(),)](x, y, x.shape[-1], BLOCK=64)
        return y
