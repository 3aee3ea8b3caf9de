import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fpval_to_key(x):
    tm: tl.constexpr = 1 << (-1 + x.dtype.primitive_bitwidth)
    fm: tl.constexpr = (1 << x.dtype.primitive_bitwidth) - 1
    return x ^ tl.where((x & tm) != 0, fm, tm)


@triton.jit
def key_to_fpval(x):
    tm: tl.constexpr = 1 << (-1 + x.dtype.primitive_bitwidth)
    fm: tl.constexpr = (1 << x.dtype.primitive_bitwidth) - 1
    return x ^ tl.where((x & tm) == 0, fm, tm)


@triton.jit
def topk_kernel(x, v, i, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, N)
    bits = tl.load(x + row * N + c).to(tl.uint32, bitcast=True)
    key = (fpval_to_key(bits).to(tl.uint64) << 32) | (N - 1 - c).to(tl.uint64)
    top = tl.topk(key, K)
    top = tl.sort(top, descending=True)
    k = tl.arange(0, K)
    idx = (N - 1) - (top & 0xFFFFFFFF).to(tl.int32)
    raw = key_to_fpval((top >> 32).to(tl.uint32))
    tl.store(v + row * K + k, raw.to(tl.float32, bitcast=True))
    tl.store(i + row * K + k, idx.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        R, N = x.shape
        v = torch.empty((R, 4), device=x.device, dtype=x.dtype)
        i = torch.empty((R, 4), device=x.device, dtype=torch.int64)
        topk_kernel[(R,)](x, v, i, N=N, K=4)
        return v, i
