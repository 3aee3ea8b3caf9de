import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lse(x, y, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
    m = tl.max(v, 0)
    tl.store(y + r, m + tl.log(tl.sum(tl.exp(v - m), 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], 1, device=x.device, dtype=x.dtype)
        lse[(x.shape[0],)](x, y, x.shape[1], B=64)
        return y
