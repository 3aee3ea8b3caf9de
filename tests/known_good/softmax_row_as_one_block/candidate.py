import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    v = tl.load(x + i)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + i, e / tl.sum(e, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, D=x.shape[1])
        return y
