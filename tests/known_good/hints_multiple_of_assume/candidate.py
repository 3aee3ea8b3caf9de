import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def elu_rows(x, bias, y, cols, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 16 == 0, "blocks are whole vectors")
    tl.assume(cols > 0)
    row = tl.program_id(0)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        start = tl.multiple_of(start, BLOCK)
        c = tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK), BLOCK)
        ok = c < cols
        v = tl.load(x + row * cols + c, mask=ok, other=0.0) + tl.load(bias + c, mask=ok, other=0.0, eviction_policy="evict_last")
        tl.store(y + row * cols + c, tl.where(v > 0, v, tl.exp(tl.minimum(v, 0.0)) - 1.0), mask=ok)


class ModelNew(nn.Module):
    def forward(self, x, bias):
        y = torch.empty_like(x)
        elu_rows[(x.shape[0],)](x, bias, y, x.shape[1], BLOCK=64)
        return y
