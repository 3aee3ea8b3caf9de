import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def cummax(x, y, N: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + r * N + i)
    tl.store(y + r * N + i, tl.associative_scan(v, 0, larger))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        cummax[(x.shape[0],)](x, y, N=x.shape[1])
        return y
