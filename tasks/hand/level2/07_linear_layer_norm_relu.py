import torch
import torch.nn as nn

ROWS = 44
FEATURES = 59
WIDTH = 83


class Model(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.linear = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, WIDTH]
