import torch
import torch.nn as nn

ROWS = 10
COLS = 16


class Model(nn.Module):
    """The first row and the last column of the product are fixed."""

    def forward(self, x, y):
        z = x * y
        z[0] = 1.0
        z[:, -1] = x[:, 0]
        return z


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
