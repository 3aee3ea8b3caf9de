import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(5, 20, 16), torch.randn(5, 16, 24)]


def get_init_inputs():
    return []
