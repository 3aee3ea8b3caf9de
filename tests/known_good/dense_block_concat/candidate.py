import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pointwise_conv_relu(x, w, b, y, CI, CO, HW, BLOCK: tl.constexpr):
    n, co = tl.program_id(0), tl.program_id(1)
    p = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for ci in range(0, CI):
        acc += tl.load(x + (n * CI + ci) * HW + p, mask=p < HW, other=0.0) * tl.load(w + co * CI + ci)
    tl.store(y + (n * CO + co) * HW + p, tl.maximum(acc + tl.load(b + co), 0.0), mask=p < HW)


class ModelNew(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.conv = nn.Conv2d(channels, growth, 1)

    def forward(self, x):
        n, ci, h, w = x.shape
        co = self.conv.weight.size(0)
        fresh = torch.empty((n, co, h, w), device=x.device, dtype=x.dtype)
        pointwise_conv_relu[(n, co, triton.cdiv(h * w, 32))](x, self.conv.weight, self.conv.bias, fresh, ci, co, h * w, BLOCK=32)
        return torch.cat((x, fresh), 1)
