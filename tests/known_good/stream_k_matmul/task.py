import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(96, 160), torch.randn(160, 64)]


def get_init_inputs():
    return []
