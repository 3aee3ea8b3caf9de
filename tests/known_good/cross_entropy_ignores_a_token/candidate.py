import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x, t, l, c, V, IGN, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * V + j, mask=j < V, other=-float("inf"))
    m = tl.max(v, 0)
    y = tl.load(t + r)
    keep = (y != IGN).to(tl.float32)
    tl.store(l + r, keep * (m + tl.log(tl.sum(tl.exp(v - m), 0)) - tl.load(x + r * V + y)))
    tl.store(c + r, keep)


@triton.jit
def mean(l, c, o, M, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o, tl.sum(tl.load(l + i, mask=i < M, other=0.0), 0) / tl.sum(tl.load(c + i, mask=i < M, other=0.0), 0))


class ModelNew(nn.Module):
    def forward(self, x, t):
        M, V = x.shape
        l = torch.empty(M, device=x.device)
        c = torch.empty_like(l)
        o = torch.empty((), device=x.device)
        rows[(M,)](x, t, l, c, V, 3, B=triton.next_power_of_2(V))
        mean[(1,)](l, c, o, M, B=triton.next_power_of_2(M))
        return o
