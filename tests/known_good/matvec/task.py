import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, v):
        return A @ v


def get_inputs():
    return [torch.randn(30, 111), torch.randn(111, 1)]


def get_init_inputs():
    return []
