import torch
import torch.nn as nn

M = 3
N = 8
K = 10


class Model(nn.Module):
    def forward(self, x):
        return (x * 2).permute(0, 2, 1)


def get_inputs():
    return [torch.randn(M, N, K)]


def get_init_inputs():
    return []
