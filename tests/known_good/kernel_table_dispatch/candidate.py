import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def mish_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    # tanh(log(1 + e^v)) = (s^2 - 1) / (s^2 + 1) with s = 1 + e^v; e = e^v is kept below overflow
    e = tl.exp(tl.minimum(v, 20.0))
    t = e * (e + 2.0)
    tl.store(y + i, tl.where(v > 20.0, v, v * t / (t + 2.0)), mask=i < n)


@triton.jit
def selu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    negative = 1.6732632423543772 * (tl.exp(v) - 1.0)
    tl.store(y + i, 1.0507009873554805 * tl.where(v > 0, v, negative), mask=i < n)


KERNELS = {"mish": mish_kernel, "selu": selu_kernel}


def launch(kernel, x, block=256):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)
    return y


class ModelNew(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.op = functools.partial(launch, KERNELS[activation], block=128)

    def forward(self, x):
        return self.op(x)
