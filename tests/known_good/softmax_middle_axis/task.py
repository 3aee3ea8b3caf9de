import torch
import torch.nn as nn

M = 4
N = 20
K = 50


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(M, N, K)]


def get_init_inputs():
    return []
