import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu2_fwd(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.maximum(tl.load(x + i, mask=i < n), 0.0)
    tl.store(y + i, v * v, mask=i < n)


class Relu2(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        relu2_fwd[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        raise NotImplementedError


class ModelNew(nn.Module):
    def forward(self, x):
        return Relu2.apply(x)
