import torch
import torch.nn as nn

M = 3
N = 15


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.full((n,), 0.5))

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return [N]
