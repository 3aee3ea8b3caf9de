import torch
import torch.nn as nn

M = 20
N = 64


class Model(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return [N, 48]
