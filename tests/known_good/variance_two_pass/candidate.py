import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def var_kernel(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    mu = tl.sum(v) / n
    d = tl.where(i < n, v - mu, 0.0)
    tl.store(y + r, tl.sum(d * d) / n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[:-1], device=x.device)
        var_kernel[x.shape[:1]](x, y, x.shape[-1], BLOCK=128)
        return y
