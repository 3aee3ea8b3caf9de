from dataclasses import dataclass
from typing import Tuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


@dataclass(frozen=True)
class LaunchConfig:
    block: int = 256
    warps: int = 4

    def grid(self, n: int) -> Tuple[int, ...]:
        return (triton.cdiv(n, self.block),)


@triton.jit
def threshold_kernel(src, dst, size, limit, value, BLOCK: tl.constexpr):
    pos = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(src + pos, pos < size)
    tl.store(dst + pos, tl.where(x > limit, x, value), pos < size)


class PointwiseModule(nn.Module):
    """What point-wise modules share; a subclass names its kernel and its scalars."""

    kernel = None
    config = LaunchConfig()

    def scalars(self):
        return ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            out = torch.empty_like(x, memory_format=torch.contiguous_format)
            n = out.numel()
            type(self).kernel[self.config.grid(n)](x, out, n, *self.scalars(), BLOCK=self.config.block, num_warps=self.config.warps)
        return out


class ModelNew(PointwiseModule):
    kernel = threshold_kernel

    def __init__(self, threshold, value):
        super().__init__()
        self.threshold = float(threshold)
        self.value = float(value)

    def scalars(self):
        return self.threshold, self.value
