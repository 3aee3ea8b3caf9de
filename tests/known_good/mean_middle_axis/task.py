import torch
import torch.nn as nn

M = 4
N = 19
K = 33


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.mean(x, dim=self.dim)


def get_inputs():
    return [torch.randn(M, N, K)]


def get_init_inputs():
    return [1]
