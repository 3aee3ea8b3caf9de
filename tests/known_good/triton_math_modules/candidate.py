import torch
import torch.nn as nn
import triton
import triton.language as tl
import triton.language.math as tlm
from triton.language.extra.cuda.libdevice import pow


@triton.jit
def fn(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tlm.floor(v) + tlm.rsqrt(tlm.fma(v, v, 1.0)) + tlm.erf(v), mask=i < n)
    a = tlm.abs(v) + 0.1
    tl.store(z + i, tl.where(a > 1e30, pow(a, 2.5), tl.exp2(2.5 * tl.log2(a))), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y, z = torch.empty_like(x), torch.empty_like(x)
        fn[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
        return y, z
