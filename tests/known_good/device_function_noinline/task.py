import torch
import torch.nn as nn

M = 20
N = 31


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.mish(x)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
