import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, q, k, cos, sin):
        def rot(x):
            a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
            return torch.cat((-b, a), dim=-1)
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        return q * cos + rot(q) * sin, k * cos + rot(k) * sin


B = 2
T = 10


def get_inputs():
    f = torch.rand(1, T, 8) * 3
    e = torch.cat((f, f), -1)
    return [torch.randn(B, 4, T, 16), torch.randn(B, 2, T, 16), e.cos(), e.sin()]


def get_init_inputs():
    return []
