import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step_added(x, y, growth, least, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.abs(tl.load(x + i, mask=i < n, other=0.0))
    # The difference has few digits and lost none of its own: two near values leave an exact one.
    tl.store(y + i, v * growth - v + least, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, growth, least):
        super().__init__()
        self.growth, self.least = growth, least

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        step_added[(triton.cdiv(n, 512),)](x, y, self.growth, self.least, n, BLOCK=512)
        return y
