import torch
import torch.nn as nn

ROWS = 8
COLS = 31


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(cols))

    def forward(self, x, y):
        return torch.where(x > y, x * self.gain, y)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS)]


def get_init_inputs():
    return [COLS]
