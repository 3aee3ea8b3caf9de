import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rope(x, inv, y, T, D: tl.constexpr):
    r = tl.program_id(0)
    h = tl.arange(0, D // 2)
    ang = (r % T).to(tl.float32) * tl.load(inv + h)
    c = tl.cos(ang)
    s = tl.sin(ang)
    a = tl.load(x + r * D + h)
    b = tl.load(x + r * D + D // 2 + h)
    tl.store(y + r * D + h, a * c - b * s)
    tl.store(y + r * D + D // 2 + h, b * c + a * s)


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        self.inv = None

    def forward(self, x):
        if self.inv is None:
            # A table that depends on nothing but d: made once, kept.
            self.inv = 1.0 / (10000 ** (torch.arange(0, self.d, 2, device=x.device).float() / self.d))
        y = torch.empty_like(x)
        rope[(x.shape[0] * x.shape[1],)](x, self.inv, y, x.shape[1], D=self.d)
        return y
