import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_max(x, s, m, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    ok = c < N
    v = tl.load(x + r * N + c, mask=ok)
    tl.store(s + r, tl.sum(tl.where(ok, v, 0.0), 0))
    tl.store(m + r, tl.max(tl.where(ok, v, -float("inf")), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        s, m = torch.empty(2, x.shape[0], device=x.device)
        sum_max[(x.shape[0],)](x, s, m, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return s, m
