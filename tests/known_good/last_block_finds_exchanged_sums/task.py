import torch
import torch.nn as nn

M = 64
N = 512


class Model(nn.Module):
    def forward(self, x):
        return (x * x).sum()


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
