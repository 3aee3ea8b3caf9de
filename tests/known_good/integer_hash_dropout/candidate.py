import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def hash_dropout(x, y, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = i.to(tl.uint32) * 2654435761 + seed.to(tl.uint32)
    h = (h ^ (h >> 15)) * 739982445
    keep = ((h >> 12) % 2) == 0
    tl.store(y + i, tl.where(keep, tl.load(x + i, mask=i < n, other=0.0) * 2.0, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, seed):
        y = torch.empty_like(x)
        hash_dropout[(triton.cdiv(x.numel(), 128),)](x, y, seed, x.numel(), BLOCK=128)
        return y
