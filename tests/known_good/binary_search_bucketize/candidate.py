import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_small(src, dst, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(dst + i, tl.sort(tl.load(src + i, mask=i < n, other=float("inf")), 0), mask=i < n)


@triton.jit
def bucketize(x, edges, y, n, n_edges, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    lo = tl.zeros((BLOCK,), tl.int32)
    size = n_edges
    hi = lo + n_edges
    while size > 0:
        mid = (lo + hi) // 2
        open_ = lo < hi
        e = tl.load(edges + mid, mask=open_ & (i < n), other=0.0)
        right = open_ & (e < v)
        hi = tl.where(open_ & (e >= v), mid, hi)
        lo = tl.where(right, mid + 1, lo)
        size = size // 2
    tl.store(y + i, lo.to(tl.int64), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, boundaries):
        k = boundaries.numel()
        edges = torch.empty_like(boundaries)
        sort_small[(1,)](boundaries, edges, k, BLOCK=triton.next_power_of_2(k))
        y = torch.empty(x.shape, device=x.device, dtype=torch.int64)
        bucketize[(triton.cdiv(x.numel(), 128),)](x, edges, y, x.numel(), k, BLOCK=128)
        return y
