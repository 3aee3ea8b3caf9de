import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x * 2).permute(0, 2, 1)


def get_inputs():
    return [torch.randn(3, 8, 10)]


def get_init_inputs():
    return []
