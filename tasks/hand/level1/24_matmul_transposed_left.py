import torch
import torch.nn as nn

M = 49
K = 111
N = 70


class Model(nn.Module):
    def forward(self, a, b):
        return a.t() @ b


def get_inputs():
    return [torch.randn(K, M), torch.randn(K, N)]


def get_init_inputs():
    return []
