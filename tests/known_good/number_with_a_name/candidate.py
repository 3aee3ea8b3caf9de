"""A kernel's constants are members of an IntEnum, handed over through a named tuple."""
import torch
import torch.nn as nn
import triton
import triton.language as tl
from enum import IntEnum
from typing import NamedTuple


class Act(IntEnum):
    RELU = 0
    TANH = 1


class Cfg(NamedTuple):
    BLOCK: int
    ACT: int


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr, ACT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if ACT == 0:
        v = tl.maximum(v, 0.0)
    else:
        v = 2 * tl.sigmoid(2 * v) - 1
    tl.store(y + i, v, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        cfg = Cfg(BLOCK=128, ACT=Act.TANH)
        kernel[(triton.cdiv(x.numel(), cfg.BLOCK),)](x, y, x.numel(), **cfg._asdict())
        return y
