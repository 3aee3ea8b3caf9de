import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(16, 16)]


def get_init_inputs():
    return [16]
