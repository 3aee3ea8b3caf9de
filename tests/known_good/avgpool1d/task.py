import torch
import torch.nn as nn

M = 3
N = 5
K = 42


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool1d(x, 4)


def get_inputs():
    return [torch.randn(M, N, K)]


def get_init_inputs():
    return []
