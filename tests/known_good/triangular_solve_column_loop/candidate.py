import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def solve(a, b, y, R, N: tl.constexpr, BR: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    i = tl.arange(0, N)
    x = tl.load(b + i[:, None] * R + r[None, :], mask=r[None, :] < R, other=0.0)
    for k in range(N):
        own = tl.sum(tl.where(i[:, None] == k, x, 0.0), 0) * 0.5
        column = tl.load(a + i * N + k, mask=i > k, other=0.0) * 0.1
        x = tl.where(i[:, None] == k, own[None, :], x - column[:, None] * own[None, :])
    tl.store(y + i[:, None] * R + r[None, :], x, mask=r[None, :] < R)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty_like(b)
        R = b.shape[1]
        solve[(triton.cdiv(R, 16),)](a, b, y, R, N=a.shape[0], BR=16, num_warps=2)
        return y
