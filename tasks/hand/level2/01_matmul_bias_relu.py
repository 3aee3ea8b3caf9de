import torch
import torch.nn as nn

M = 45
K = 87
N = 66


class Model(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, n) / k ** 0.5)
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(x @ self.weight + self.bias)


def get_inputs():
    return [torch.randn(M, K)]


def get_init_inputs():
    return [K, N]
