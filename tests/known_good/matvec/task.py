import torch
import torch.nn as nn

M = 30
N = 111


class Model(nn.Module):
    def forward(self, A, v):
        return A @ v


def get_inputs():
    return [torch.randn(M, N), torch.randn(N, 1)]


def get_init_inputs():
    return []
