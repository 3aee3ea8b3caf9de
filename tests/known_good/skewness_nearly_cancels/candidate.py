import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def skew(x, y, s, N, eps, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < N
    v = tl.load(x + r * N + c, mask=m, other=0.0)
    d = tl.where(m, v - tl.sum(v) / N, 0.0)
    z = d * tl.rsqrt(tl.sum(d * d) / N + eps)
    tl.store(y + r * N + c, z, mask=m)
    tl.store(s + r, tl.sum(z * z * z) / N)


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        s = x.new_empty(x.shape[0])
        skew[(x.shape[0],)](x, y, s, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y, s
