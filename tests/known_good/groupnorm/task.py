import torch
import torch.nn as nn

M = 12
N = 5
K = 6


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.gn = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.gn(x)


def get_inputs():
    return [torch.randn(2, M, N, K)]


def get_init_inputs():
    return [4, M]
