import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool1d(x, 4)


def get_inputs():
    return [torch.randn(3, 5, 42)]


def get_init_inputs():
    return []
