import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bn_relu(x, mean, var, w, b, y, HW, C, eps, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    c = nc % C
    mu = tl.load(mean + c)
    scale = tl.load(w + c) / tl.sqrt(tl.load(var + c) + eps)
    shift = tl.load(b + c)
    s = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + nc * HW + s, mask=s < HW)
    tl.store(y + nc * HW + s, tl.maximum((v - mu) * scale + shift, 0.0), mask=s < HW)


class ModelNew(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bn = nn.BatchNorm2d(c)
        self.eval()

    def forward(self, x):
        N, C, H, W = x.shape
        y = torch.empty_like(x)
        bn = self.bn
        bn_relu[(N * C, triton.cdiv(H * W, 16))](x, bn.running_mean, bn.running_var, bn.weight, bn.bias, y, H * W, C, bn.eps, BLOCK=16)
        return y
