import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shifted_tiles(x, y, n, BLOCK: tl.constexpr):
    # The last tile is moved back so that it ends at n: no mask; a few elements are written twice, with equal values.
    start = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    i = start + tl.arange(0, BLOCK)
    tl.store(y + i, tl.sigmoid(tl.load(x + i)) - 0.5)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        block = 128
        while block > n:
            block //= 2
        shifted_tiles[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)
        return y
