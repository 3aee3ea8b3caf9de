import torch
import torch.nn as nn

M = 50
N = 45
K = 38


class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(torch.mm(a, b))


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
