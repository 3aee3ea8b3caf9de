import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def online_softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = -float("inf")
    s = 0.0
    for start in tl.range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + c, mask=c < n, other=-float("inf"))
        new_m = tl.maximum(m, tl.max(v, 0))
        s = s * tl.exp(m - new_m) + tl.sum(tl.exp(v - new_m), 0)
        m = new_m
    for start in tl.range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + c, mask=c < n, other=0.0)
        tl.store(y + row * n + c, tl.exp(v - m) / s, mask=c < n)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        y = torch.empty_like(x)
        online_softmax[(x.shape[0],)](x, y, x.shape[self.dim], BLOCK=256)
        return y
