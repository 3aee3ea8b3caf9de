import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, at, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    shift = tl.maximum(tl.load(x + at), 0.0) * 2
    tl.store(out + i, tl.load(x + i, mask=i < n) + shift, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n, out = x.numel(), torch.empty_like(x)
        kernel[(triton.cdiv(n, 256),)](x, out, n // 2, n, B=256)
        return out
