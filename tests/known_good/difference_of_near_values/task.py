import torch
import torch.nn as nn

ROWS = 40
COLS = 300
growth = 1.0 + 1.0 / 512
least = 2.0**-20


class Model(nn.Module):
    """What a step adds: the difference of two values that are near each other, and a bit more."""

    def __init__(self, growth, least):
        super().__init__()
        self.growth, self.least = growth, least

    def forward(self, x):
        return torch.abs(x) * self.growth - torch.abs(x) + self.least


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [growth, least]
