import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step(cache, new, position, q, out, copy, L, D: tl.constexpr, BL: tl.constexpr):
    b = tl.program_id(0)
    at = tl.load(position)
    i = tl.arange(0, BL)
    d = tl.arange(0, D)
    ok = i[:, None] < L
    place = b * L * D + i[:, None] * D + d[None, :]
    rows = tl.load(cache + place, mask=ok, other=0.0)
    rows = tl.where(i[:, None] == at, tl.load(new + b * D + d)[None, :], rows)
    tl.store(copy + place, rows, mask=ok)
    s = tl.sum(rows * tl.load(q + b * D + d)[None, :], 1)
    s = tl.where(i < L, s, -float("inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(out + b * D + d, tl.sum(p[:, None] * rows, 0) / tl.sum(p, 0))


class ModelNew(nn.Module):
    def forward(self, cache, new, position, q):
        B, L, D = cache.shape
        out, copy = torch.empty_like(q), torch.empty_like(cache)
        step[(B,)](cache, new, position, q, out, copy, L, D=D, BL=triton.next_power_of_2(L))
        return out, copy
