import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def exp2_soft(x):
    """2**x for x <= 0 by a polynomial on the fraction and the exponent's bits (as FlashAttention-4 has it)."""
    x = tl.maximum(x, -126.0)
    n = tl.floor(x)
    f = x - n
    p = 0.0001545
    p = p * f + 0.00132683
    p = p * f + 0.00961862
    p = p * f + 0.05550364
    p = p * f + 0.24022650
    p = p * f + 0.69314718
    p = p * f + 1.0
    bits = (n.to(tl.int32) + 127) << 23
    return p * bits.to(tl.float32, bitcast=True)


@triton.jit
def sm(x, o, N, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * N + j, mask=j < N, other=-float("inf"))
    e = exp2_soft((v - tl.max(v, 0)) * 1.4426950408889634)
    e = tl.where(j < N, e, 0.0)
    tl.store(o + r * N + j, e / tl.sum(e, 0), mask=j < N)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        sm[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
