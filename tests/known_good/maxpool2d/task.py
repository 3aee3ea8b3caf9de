import torch
import torch.nn as nn

M = 3
N = 12
K = 10


class Model(nn.Module):
    def __init__(self, k, s):
        super().__init__()
        self.pool = nn.MaxPool2d(k, s)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(2, M, N, K)]


def get_init_inputs():
    return [M, 2]
