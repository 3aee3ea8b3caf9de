import torch
import torch.nn as nn

N = 700


class Model(nn.Module):
    def forward(self, x):
        y = torch.exp(-x * x)
        y = y / (1 + y)
        return torch.sqrt(y)


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
