import torch
import torch.nn as nn

B = 3
M = 8
N = 4
K = 9


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bn = nn.BatchNorm2d(c)
        self.eval()

    def forward(self, x):
        return torch.relu(self.bn(x))


def get_inputs():
    return [torch.randn(B, M, N, K)]


def get_init_inputs():
    return [M]
