import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l2(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=0.0)
    tl.store(y + r * n + c, v / tl.sqrt(tl.sum(v * v, axis=0)), mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        l2[(x.shape[0],)](x, out, x.shape[1], BLOCK=128)
        return out
