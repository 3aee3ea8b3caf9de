import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lower_product(a, b, c, N, B: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    if i < j:
        return  # above the diagonal: the zeros stay
    r = i * B + tl.arange(0, B)
    s = j * B + tl.arange(0, B)
    m = (r[:, None] < N) & (s[None, :] <= r[:, None])
    p = r[:, None] * N + s[None, :]
    tl.store(c + p, tl.load(a + p, mask=m) * tl.load(b + p, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        N = a.shape[0]
        c = torch.zeros_like(a)
        t = triton.cdiv(N, 16)
        lower_product[(t, t)](a, b, c, N, B=16)
        return c
