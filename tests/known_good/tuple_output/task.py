import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a + b, a - b


def get_inputs():
    return [torch.randn(11, 20), torch.randn(11, 20)]


def get_init_inputs():
    return []
