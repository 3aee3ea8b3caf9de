import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mse(p, t, out, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for s in range(0, n, BLOCK):
        i = s + tl.arange(0, BLOCK)
        d = tl.load(p + i, mask=i < n, other=0.0) - tl.load(t + i, mask=i < n, other=0.0)
        acc += d * d
    tl.store(out, tl.sum(acc) / n)


class ModelNew(nn.Module):
    def forward(self, p, t):
        out = torch.empty([], device=p.device)
        mse[(1,)](p, t, out, p.numel(), BLOCK=256)
        return out
