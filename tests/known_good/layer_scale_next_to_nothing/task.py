import torch
import torch.nn as nn

M = 24
N = 48


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((n,), 1e-6))

    def forward(self, x, z):
        return x + self.gamma * torch.tanh(z)


def get_inputs():
    return [torch.randn(M, N), torch.randn(M, N)]


def get_init_inputs():
    return [N]