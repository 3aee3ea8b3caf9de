import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a > b) & (a > 0)


def get_inputs():
    return [torch.randn(41, 13), torch.randn(41, 13)]


def get_init_inputs():
    return []
