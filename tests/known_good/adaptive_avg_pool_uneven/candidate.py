import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool(x, y, L, BINS, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    b = tl.program_id(1)
    start = b * L // BINS
    stop = ((b + 1) * L + BINS - 1) // BINS
    total = 0.0
    for at in range(start, stop, BLOCK):
        i = at + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + row * L + i, mask=i < stop, other=0.0))
    tl.store(y + row * BINS + b, total / (stop - start))


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        n, c, length = x.shape
        y = torch.empty((n, c, self.bins), device=x.device, dtype=x.dtype)
        pool[(n * c, self.bins)](x, y, length, self.bins, BLOCK=16)
        return y
