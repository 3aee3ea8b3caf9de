import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lae(a, b):
    m = tl.maximum(a, b)
    d = tl.where(m == -float("inf"), 0.0, tl.exp(tl.minimum(a, b) - m))
    return m + tl.log(1 + d)


@triton.jit
def k(x, o, N, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * N + j, mask=j < N, other=-float("inf"))
    y = tl.associative_scan(v, 0, lae)
    tl.store(o + r * N + j, y, mask=j < N)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        k[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
