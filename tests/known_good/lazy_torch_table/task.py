import torch
import torch.nn as nn

N = 100


class Model(nn.Module):
    def forward(self, x):
        t = torch.arange(x.shape[0], device=x.device, dtype=x.dtype)
        return x * torch.cos(t)


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
