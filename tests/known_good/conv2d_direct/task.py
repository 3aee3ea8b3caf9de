import torch
import torch.nn as nn

M = 3
N = 11
K = 13


class Model(nn.Module):
    def __init__(self, ci, co, k):
        super().__init__()
        self.conv2d = nn.Conv2d(ci, co, k, stride=2)

    def forward(self, x):
        return self.conv2d(x)


def get_inputs():
    return [torch.randn(2, M, N, K)]


def get_init_inputs():
    return [M, 4, M]
