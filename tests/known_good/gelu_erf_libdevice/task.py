import torch
import torch.nn as nn

M = 128
N = 9


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
