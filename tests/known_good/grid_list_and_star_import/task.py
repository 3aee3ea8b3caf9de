import torch
import torch.nn as nn

N = 100


class Model(nn.Module):
    def forward(self, x):
        return x * 3


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
