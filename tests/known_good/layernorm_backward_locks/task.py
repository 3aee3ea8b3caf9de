import torch
import torch.nn as nn

class Model(nn.Module):
    """The gradients of a layer norm without autograd: dx, dw, db."""

    def forward(self, dy, x, w):
        mean = x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
        xhat = (x - mean) * rstd
        wdy = w * dy
        c1 = (xhat * wdy).mean(-1, keepdim=True)
        c2 = wdy.mean(-1, keepdim=True)
        return (wdy - (xhat * c1 + c2)) * rstd, (dy * xhat).sum(0), dy.sum(0)


def get_inputs():
    return [torch.randn(20, 100), torch.randn(20, 100), torch.rand(100)]


def get_init_inputs():
    return []
