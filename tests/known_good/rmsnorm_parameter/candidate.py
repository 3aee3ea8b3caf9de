import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_kernel(x_ptr, w_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride
    y_ptr += tl.program_id(0) * stride
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + c, mask=c < n, other=0.0).to(tl.float32)
        acc += v * v
    r = tl.rsqrt(tl.sum(acc) / n + eps)
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        m = c < n
        tl.store(y_ptr + c, tl.load(x_ptr + c, mask=m) * r * tl.load(w_ptr + c, mask=m), mask=m)


class ModelNew(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        rms_kernel[(x.shape[0],)](x, self.weight, y, x.stride(0), x.shape[1], self.eps, BLOCK=64)
        return y
