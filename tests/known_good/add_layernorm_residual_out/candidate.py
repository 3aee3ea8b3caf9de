import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_ln_fwd(X, R, W, B, Y, H, stride, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    in_row = cols < N
    x = tl.load(X + row * stride + cols, mask=in_row, other=0.0).to(tl.float32)
    r = tl.load(R + row * stride + cols, mask=in_row, other=0.0).to(tl.float32)
    h = x + r
    tl.store(H + row * stride + cols, h, mask=in_row)

    mean = tl.sum(h, axis=0) / N
    centred = tl.where(in_row, h - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)

    w = tl.load(W + cols, mask=in_row)
    b = tl.load(B + cols, mask=in_row)
    tl.store(Y + row * stride + cols, centred * rstd * w + b, mask=in_row)


class ModelNew(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x, residual):
        shape = x.shape
        x, residual = x.reshape(-1, shape[-1]), residual.reshape(-1, shape[-1])
        rows, n = x.shape
        y = torch.empty_like(x)
        h = torch.empty_like(x)
        add_ln_fwd[(rows,)](x, residual, self.weight, self.bias, y, h, x.stride(0), n, self.eps, BLOCK_N=triton.next_power_of_2(n))
        return y.reshape(shape), h.reshape(shape)
