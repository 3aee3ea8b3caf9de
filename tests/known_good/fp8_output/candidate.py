import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, o, N, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * N + j, mask=j < N, other=0.0)
    y = tl.clamp(v, -400.0, 400.0).to(tl.float8e4nv)
    tl.store(o + r * N + j, y, mask=j < N)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, device=x.device, dtype=torch.float8_e4m3fn)
        k[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
