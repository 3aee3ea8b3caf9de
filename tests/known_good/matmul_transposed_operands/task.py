import torch
import torch.nn as nn

M = 24
N = 32
K = 40


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.T, b.T)


def get_inputs():
    return [torch.randn(M, N), torch.randn(K, M)]


def get_init_inputs():
    return []
