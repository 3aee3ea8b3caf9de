import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def quantise(x, q, s, N, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * N + i, mask=i < N, other=0.0)
    scale = tl.div_rn(tl.max(tl.abs(v), 0), 127.0) + 1e-12
    tl.store(s + r, scale)
    tl.store(q + r * N + i, libdevice.rint(tl.div_rn(v, scale)).to(tl.int8), mask=i < N)


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        q = torch.empty((M, N), dtype=torch.int8, device=x.device)
        s = torch.empty((M, 1), dtype=x.dtype, device=x.device)
        quantise[(M,)](x, q, s, N, B=triton.next_power_of_2(N))
        return q, s
