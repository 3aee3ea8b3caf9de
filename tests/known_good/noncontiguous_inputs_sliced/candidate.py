import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(x, y, o, R, C, x0, x1, y0, y1, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    m = (r < R) & (c < C)
    tl.store(o + r * C + c, tl.load(x + r * x0 + c * x1, mask=m) * 2 + tl.load(y + r * y0 + c * y1, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, y):
        a = x[::2]
        b = y.mT[: a.shape[0]]
        o = torch.empty(a.shape, device=a.device, dtype=a.dtype)
        R, C = o.shape
        combine[(triton.cdiv(R, 8), triton.cdiv(C, 8))](a, b, o, R, C, a.stride(0), a.stride(1), b.stride(0), b.stride(1), B=8)
        return o
