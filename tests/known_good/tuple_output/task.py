import torch
import torch.nn as nn

M = 11
N = 20


class Model(nn.Module):
    def forward(self, a, b):
        return a + b, a - b


def get_inputs():
    return [torch.randn(M, N), torch.randn(M, N)]


def get_init_inputs():
    return []
