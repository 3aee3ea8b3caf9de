import torch
import torch.nn as nn

M = 19
N = 70


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return x + self.bias


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return [N]
