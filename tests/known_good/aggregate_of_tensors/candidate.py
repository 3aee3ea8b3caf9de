import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.core import _aggregate as aggregate

EPS = tl.constexpr(1e-3)


@aggregate
class Moments:
    count: tl.tensor
    mean: tl.tensor
    m2: tl.tensor
    LANES: tl.constexpr

    @triton.constexpr_function
    def __init__(self, count, mean, m2, LANES):
        """Fields as they come."""
        self.count = count
        self.mean = mean
        self.m2 = m2
        self.LANES = tl.constexpr(LANES)

    @triton.jit
    def with_block(self, x, mask):
        n = self.count + tl.where(mask, 1.0, 0.0)
        delta = tl.where(mask, x - self.mean, 0.0)
        mean = self.mean + delta / tl.maximum(n, 1.0)
        return Moments(n, mean, self.m2 + delta * tl.where(mask, x - mean, 0.0), self.LANES)

    @triton.jit
    def total(self):
        n = tl.sum(self.count, 0)
        mean = tl.sum(self.count * self.mean, 0) / n
        d = self.mean - mean
        return Total(mean, tl.sum(self.m2 + self.count * d * d, 0) / n)


@aggregate
class Total:
    mean: tl.tensor
    variance: tl.tensor

    @triton.constexpr_function
    def __init__(self, mean, variance):
        self.mean = mean
        self.variance = variance


@triton.jit
def normalise(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    zero = tl.zeros((BLOCK,), tl.float32)
    moments = Moments(zero, zero, zero, BLOCK)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        moments = moments.with_block(tl.load(x + row * n + i, mask=i < n, other=0.0), i < n)
    total = moments.total()
    for start in range(0, n, moments.LANES):
        i = start + tl.arange(0, moments.LANES)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0)
        tl.store(y + row * n + i, (v - total.mean) / tl.sqrt(total.variance + EPS), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        normalise[(x.shape[0],)](x, y, x.shape[1], BLOCK=64)
        return y
