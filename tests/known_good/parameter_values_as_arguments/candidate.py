import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, scale, shift, weight, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, scale / (1.0 + tl.exp(-x)) + shift * weight, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = nn.Parameter(torch.full((1,), -0.25))
        self.weights = nn.Parameter(torch.randn(4))

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 256),)](x, y, n, self.scale.item(), float(self.shift), self.weights[2].item(), BLOCK=256)
        return y
