import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.exp(x) * torch.tanh(y)


def get_inputs():
    return [torch.randn(33, 130), torch.randn(33, 130)]


def get_init_inputs():
    return []
