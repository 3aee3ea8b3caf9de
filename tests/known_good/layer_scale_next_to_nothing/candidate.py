import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, z, g, y, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(z + i, mask=m)
    c = tl.load(g + i % N, mask=m)
    r = a + c * (2 * tl.sigmoid(2 * b) - 1)
    tl.store(y + i, r, mask=m)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((n,), 1e-6))

    def forward(self, x, z):
        y = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 256),)](x, z, self.gamma, y, x.numel(), x.shape[1], BLOCK=256)
        return y
