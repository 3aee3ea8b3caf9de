import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, p, t):
        return torch.nn.functional.mse_loss(p, t)


def get_inputs():
    return [torch.randn(40, 25), torch.randn(40, 25)]


def get_init_inputs():
    return []
