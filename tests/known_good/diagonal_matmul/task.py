import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, d, m):
        return torch.diag(d) @ m


def get_inputs():
    return [torch.randn(31), torch.randn(31, 45)]


def get_init_inputs():
    return []
