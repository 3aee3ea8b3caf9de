import torch
import torch.nn as nn

M = 7
N = 6
K = 55


class Model(nn.Module):
    def forward(self, x):
        return torch.max(x, dim=-1)[0]


def get_inputs():
    return [torch.randn(M, N, K)]


def get_init_inputs():
    return []
