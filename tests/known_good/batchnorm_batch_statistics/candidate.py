import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stats_kernel(x, mean, rstd, N, C, eps, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    v = tl.load(x + r * C + c, mask=r < N, other=0.0)
    mu = tl.sum(v, 0) / N
    d = tl.where(r < N, v - mu, 0.0)
    tl.store(mean + c, mu)
    tl.store(rstd + c, tl.rsqrt(tl.sum(d * d, 0) / N + eps))


@triton.jit
def apply_kernel(x, mean, rstd, w, b, y, total, C, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < total
    c = i % C
    v = (tl.load(x + i, mask=m) - tl.load(mean + c, mask=m)) * tl.load(rstd + c, mask=m)
    tl.store(y + i, v * tl.load(w + c, mask=m) + tl.load(b + c, mask=m), mask=m)


class ModelNew(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bn = nn.BatchNorm1d(c, track_running_stats=False)

    def forward(self, x):
        N, C = x.shape
        mean = x.new_empty(C)
        rstd = x.new_empty((C,))
        y = torch.empty_like(x)
        stats_kernel[(C,)](x, mean, rstd, N, C, self.bn.eps, BLOCK=32)
        apply_kernel[(triton.cdiv(x.numel(), 64),)](x, mean, rstd, self.bn.weight, self.bn.bias, y, x.numel(), C, BLOCK=64)
        return y
