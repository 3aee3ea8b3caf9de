import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh2(x, y, rows, cols, sx0, sx1, sy0, sy1, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    c = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    m = (r < rows) & (c < cols)
    v = tl.load(x + r * sx0 + c * sx1, mask=m, other=0.0)
    e = tl.exp(-2.0 * tl.abs(v))
    t = (1.0 - e) / (1.0 + e)
    tl.store(y + r * sy0 + c * sy1, tl.where(v < 0, -t, t) * 2, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        rows, cols = x.shape
        tanh2[(triton.cdiv(rows, 16), triton.cdiv(cols, 16))](x, y, rows, cols, *x.stride(), *y.stride(), BM=16, BN=16)
        return y
