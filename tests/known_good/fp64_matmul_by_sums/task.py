import torch
import torch.nn as nn

M = 13
N = 18
K = 30


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K, dtype=torch.float64), torch.randn(K, N, dtype=torch.float64)]


def get_init_inputs():
    return []
