import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def q(x, o, so, N, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * N + j, mask=j < N, other=0.0)
    s = tl.div_rn(tl.maximum(tl.max(tl.abs(v), 0), 1e-8), 127.0)
    z = tl.div_rn(v, tl.zeros_like(v) + s)
    z = (z + 12582912.0) - 12582912.0
    tl.store(o + r * N + j, tl.clamp(z, -127.0, 127.0).to(tl.int8), mask=j < N)
    tl.store(so + r, s)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, dtype=torch.int8, device=x.device)
        s = torch.empty((x.shape[0], 1), device=x.device)
        q[(x.shape[0],)](x, o, s, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o, s
