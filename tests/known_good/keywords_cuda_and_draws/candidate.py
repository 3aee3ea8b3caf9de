import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x, y, w, h, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + r * n + i, mask=m) * tl.load(w + i, mask=m) + tl.load(y + r * n + i, mask=m) + tl.load(h + i, mask=m)
    tl.store(o + r * n + i, v, mask=m)


class ModelNew(nn.Module):
    def __init__(self, n, scale=1.0):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n) * scale)

    def forward(self, x, y):
        h = torch.randn(x.shape[1], device=x.device)
        o = torch.empty_like(x)
        scaled_sum[(x.shape[0],)](x, y, self.w, h, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return {"a": o, "n": 3}
