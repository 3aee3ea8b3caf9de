import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def smallest(a, b):
    return tl.minimum(a, b)


@triton.jit
def distance(a, b, out, n, m, B: tl.constexpr):
    p = tl.program_id(0)
    j = tl.arange(0, B)
    text = tl.load(b + p * m + j - 1, mask=(j > 0) & (j <= m), other=-1)
    row = j.to(tl.int64)
    for i in range(n):
        c = tl.load(a + p * n + i)
        shifted = tl.gather(row, tl.maximum(j - 1, 0), 0)
        best = tl.minimum(row + 1, shifted + (text != c).to(tl.int64))
        best = tl.where(j == 0, i + 1, best)
        row = tl.associative_scan(best - j, 0, smallest) + j
    tl.store(out + p, tl.sum(tl.where(j == m, row, 0), 0))


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], dtype=torch.int64, device=a.device)
        distance[(a.shape[0],)](a, b, out, a.shape[1], b.shape[1], B=triton.next_power_of_2(b.shape[1] + 1), num_warps=1)
        return out
