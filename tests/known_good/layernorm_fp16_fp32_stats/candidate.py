import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ln_half(x_ptr, w_ptr, b_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    x = tl.load(x_ptr + row * n + c, mask=m, other=0.0).to(tl.float32)
    mu = tl.sum(x, axis=0) / n
    d = tl.where(m, x - mu, 0.0)
    y = d * tl.math.rsqrt(tl.sum(d * d, axis=0) / n + eps)
    w = tl.load(w_ptr + c, mask=m).to(tl.float32)
    b = tl.load(b_ptr + c, mask=m).to(tl.float32)
    tl.store(y_ptr + row * n + c, (y * w + b).to(tl.float16), mask=m)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln = nn.LayerNorm(dim, dtype=torch.float16)

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        ln_half[(x.numel() // n,)](x, self.ln.weight, self.ln.bias, y, n, self.ln.eps, BLOCK=triton.next_power_of_2(n))
        return y
