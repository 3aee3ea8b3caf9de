import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x):
    return tl.where(x > 0, x, 0.0)


@triton.jit
def double(x):
    return x * 2.0


@triton.jit
def kern(x_ptr, out_ptr, n, F: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, G(F(x)) + 1.0, mask=i < n)


def run(x):
    out = torch.empty_like(x)
    kern[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), relu, double, BLOCK=256)
    return out



class ModelNew(nn.Module):
    def forward(self, x):
        return run(x)
