import torch
import torch.nn as nn

M = 17
N = 4


class Model(nn.Module):
    def forward(self, xs, alpha):
        return xs[0] + alpha * xs[1]


def get_inputs():
    return [[torch.randn(M, N), torch.randn(M, N)], 0.75]


def get_init_inputs():
    return []
