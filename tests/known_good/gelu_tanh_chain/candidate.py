import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scale_gelu(X, Y, N, scale, shift, B: tl.constexpr):
    i = tl.program_id(axis=0) * B + tl.arange(0, B)
    m = i < N
    v = tl.load(X + i, mask=m, other=0.0) * scale + shift
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(Y + i, 0.5 * v * (1.0 + libdevice.tanh(inner)), mask=m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.5
        self.shift = 0.25

    def forward(self, x):
        assert x.is_cuda and x.is_contiguous()
        out = torch.empty_like(x)
        N = x.numel()
        grid = lambda meta: (triton.cdiv(N, meta["B"]),)
        scale_gelu[grid](x, out, N, self.scale, self.shift, B=512)
        return out
