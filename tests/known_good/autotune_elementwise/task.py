import torch
import torch.nn as nn

N = 3000


class Model(nn.Module):
    def forward(self, x, y):
        return torch.maximum(x, y) * 0.5


def get_inputs():
    return [torch.randn(N), torch.randn(N)]


def get_init_inputs():
    return []
