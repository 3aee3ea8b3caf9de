import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_positions(x, exponents, scale, y, D, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    f = tl.exp(tl.load(exponents + c // 2, mask=c < D, other=0).to(tl.float32) * tl.load(scale))
    angle = t * f
    p = tl.where(c % 2 == 0, tl.sin(angle), tl.cos(angle))
    tl.store(y + t * D + c, tl.load(x + t * D + c, mask=c < D) + p, mask=c < D)


class ModelNew(nn.Module):
    def forward(self, x):
        t, d = x.shape
        exponents = torch.arange(0, d, 2, device=x.device)
        scale = torch.tensor(-9.210340371976184 / d, device=x.device, dtype=torch.float32)
        y = torch.empty_like(x)
        add_positions[(t,)](x, exponents, scale, y, d, BLOCK=triton.next_power_of_2(d))
        return y
