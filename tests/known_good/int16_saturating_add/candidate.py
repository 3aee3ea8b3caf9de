import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def saturating_add(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    s = tl.load(a + i, mask=m, other=0).to(tl.int32) + tl.load(b + i, mask=m, other=0).to(tl.int32)
    s = tl.minimum(tl.maximum(s, -32768), 32767)
    tl.store(c + i, s.to(tl.int16), mask=m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        saturating_add[(triton.cdiv(a.numel(), 128),)](a, b, c, a.numel(), BLOCK=128)
        return c
