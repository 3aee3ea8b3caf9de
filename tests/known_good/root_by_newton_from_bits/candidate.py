import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms(x, o, N, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * N + j, mask=j < N, other=0.0)
    s = tl.sum(v * v, 0) / N + 1e-6
    b = s.to(tl.int32, bitcast=True)
    y = (0x5F3759DF - (b >> 1)).to(tl.float32, bitcast=True)
    for _ in tl.static_range(4):
        y = y * (1.5 - 0.5 * s * y * y)
    tl.store(o + r * N + j, v * y, mask=j < N)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        rms[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
