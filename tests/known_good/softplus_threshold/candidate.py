import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus(x_ptr, y_ptr, n, beta, threshold, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    z = x * beta
    y = tl.where(z > threshold, x, tl.log(1.0 + tl.exp(tl.minimum(z, threshold))) / beta)
    tl.store(y_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, beta, threshold):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, x):
        y = torch.empty_like(x)
        softplus[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), self.beta, self.threshold, BLOCK=128)
        return y
