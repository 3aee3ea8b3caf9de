import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, k, s):
        super().__init__()
        self.pool = nn.MaxPool2d(k, s)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(2, 3, 12, 10)]


def get_init_inputs():
    return [3, 2]
