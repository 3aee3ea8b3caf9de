import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, h, n, lo, hi, B: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=float("nan"))
    ok = (v >= lo) & (v <= hi)
    b = tl.minimum(((v - lo) * B / (hi - lo)).to(tl.int32), B - 1)
    tl.atomic_add(h + b, 1.0, mask=ok)


class ModelNew(nn.Module):
    def forward(self, x):
        h = torch.zeros(16, device=x.device)
        k[(triton.cdiv(x.numel(), 256),)](x, h, x.numel(), -2.0, 2.0, B=16, BLOCK=256)
        return h
