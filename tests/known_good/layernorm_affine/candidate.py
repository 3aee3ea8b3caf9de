import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(x, w, b, y, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < N
    v = tl.load(x + row * N + c, mask=m, other=0.0)
    mean = tl.sum(v, axis=0) / N
    d = tl.where(m, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / N + eps)
    out = d * rstd * tl.load(w + c, mask=m) + tl.load(b + c, mask=m)
    tl.store(y + row * N + c, out, mask=m)


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)

    def forward(self, x):
        x2 = x.reshape(-1, x.shape[-1])
        y = torch.empty_like(x2)
        layernorm_kernel[(x2.shape[0],)](x2, self.ln.weight, self.ln.bias, y, x2.shape[1], self.ln.eps, BLOCK=128)
        return y.view_as(x)
