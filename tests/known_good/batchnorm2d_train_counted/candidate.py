import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bn_train(x, w, b, running_mean, running_var, y, N, C, HW, eps, momentum, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    count = N * HW
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = (i // HW) * C * HW + c * HW + i % HW
        s += tl.load(x + p, mask=i < count, other=0.0)
    mean = tl.sum(s, 0) / count
    s2 = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = (i // HW) * C * HW + c * HW + i % HW
        d = tl.where(i < count, tl.load(x + p, mask=i < count, other=0.0) - mean, 0.0)
        s2 += d * d
    total = tl.sum(s2, 0)
    var = total / count
    scale = tl.load(w + c) * tl.rsqrt(var + eps)
    shift = tl.load(b + c) - mean * scale
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = (i // HW) * C * HW + c * HW + i % HW
        tl.store(y + p, tl.load(x + p, mask=i < count, other=0.0) * scale + shift, mask=i < count)
    tl.store(running_mean + c, (1 - momentum) * tl.load(running_mean + c) + momentum * mean)
    tl.store(running_var + c, (1 - momentum) * tl.load(running_var + c) + momentum * total / (count - 1))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        x = x.contiguous()
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        bn = self.bn
        bn.num_batches_tracked += 1
        bn_train[(c,)](x, bn.weight, bn.bias, bn.running_mean, bn.running_var, y, n, c, h * w, bn.eps, bn.momentum, BLOCK=64)
        return y
