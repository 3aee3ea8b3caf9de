import torch
import torch.nn as nn

N = 300


class Model(nn.Module):
    def forward(self, x):
        a = torch.abs(x)
        return (
            torch.asinh(x) + torch.atan(x) + torch.erf(x),
            torch.log1p(a) + torch.expm1(-a) + torch.pow(a + 0.5, 0.3),
            torch.fmod(x, 0.7) + torch.round(x) + torch.trunc(x) - torch.floor(x) + torch.ceil(x),
            torch.hypot(x, a + 1) + torch.copysign(a, -x) + torch.cosh(torch.clamp(x, -3, 3)),
            torch.lgamma(a + 1.5) + torch.atan2(x, a + 1.0) + torch.sinh(torch.tanh(x)),
        )


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
