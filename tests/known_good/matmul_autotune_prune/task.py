import torch
import torch.nn as nn

M = 40
N = 33
K = 29


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, N), torch.randn(N, K)]


def get_init_inputs():
    return []
