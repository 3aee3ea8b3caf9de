import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def both(x, s, a, b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    k = tl.load(s)
    tl.store(a + i, v + k, mask=i < n)
    tl.store(b, tl.sum(v, 0) * k)


class ModelNew(nn.Module):
    def forward(self, x, s):
        a = torch.empty_like(x)
        b = torch.empty_like(s)
        both[(1,)](x, s, a, b, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return a, b
