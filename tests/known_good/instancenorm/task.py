import torch
import torch.nn as nn

M = 5
N = 7
K = 9


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.InstanceNorm2d(c)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(2, M, N, K)]


def get_init_inputs():
    return [M]
