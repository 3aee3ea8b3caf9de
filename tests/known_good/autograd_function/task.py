import torch
import torch.nn as nn

M = 22
N = 8


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) ** 2


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
