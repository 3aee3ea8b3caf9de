import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return 1 + x * (2 + x * (3 + x * 4))


def get_inputs():
    return [torch.randn(500, dtype=torch.float64)]


def get_init_inputs():
    return []
