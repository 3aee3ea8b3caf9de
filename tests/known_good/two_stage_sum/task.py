import torch
import torch.nn as nn

N = 5000


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x * x)


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
