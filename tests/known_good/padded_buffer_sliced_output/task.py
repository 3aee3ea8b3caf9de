import torch
import torch.nn as nn

M = 19
N = 23


class Model(nn.Module):
    def forward(self, x):
        return x.t() * 3 - 1


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
