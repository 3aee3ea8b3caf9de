import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def polar(r, theta):
    return r * tl.cos(theta), r * tl.sin(theta)


@triton.jit
def norm2(x, y, eps: tl.constexpr = 0.0):
    return tl.sqrt(x * x + y * y + eps)


@triton.jit
def store_three(p0, p1, p2, off, v0, v1, v2, mask):
    tl.store(p0 + off, v0, mask=mask)
    tl.store(p1 + off, v1, mask=mask)
    tl.store(p2 + off, v2, mask=mask)


@triton.jit
def polar_kernel(r_ptr, t_ptr, x_ptr, y_ptr, n_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    x, y = polar(tl.load(r_ptr + i, mask=m, other=0.0), tl.load(t_ptr + i, mask=m, other=0.0))
    store_three(x_ptr, y_ptr, n_ptr, i, x, y, norm2(x, y, eps=1e-6), m)


class ModelNew(nn.Module):
    def forward(self, r, theta):
        x, y, norm = (torch.empty_like(r) for _ in range(3))
        n = r.numel()
        polar_kernel[(triton.cdiv(n, 256),)](r, theta, x, y, norm, n, BLOCK=256)
        return x, y, norm
