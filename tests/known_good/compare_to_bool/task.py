import torch
import torch.nn as nn

M = 41
N = 13


class Model(nn.Module):
    def forward(self, a, b):
        return (a > b) & (a > 0)


def get_inputs():
    return [torch.randn(M, N), torch.randn(M, N)]


def get_init_inputs():
    return []
