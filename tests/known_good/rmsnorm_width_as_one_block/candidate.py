import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms(x, w, y, D: tl.constexpr):
    d = tl.arange(0, D)
    at = tl.program_id(0) * D + d
    v = tl.load(x + at)
    tl.store(y + at, v * tl.rsqrt(tl.sum(v * v, 0) / D + 1e-6) * tl.load(w + d))


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        rms[(x.numel() // x.shape[-1],)](x, self.weight, y, D=x.shape[-1])
        return y
