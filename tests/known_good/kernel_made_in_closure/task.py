import torch
import torch.nn as nn

ROWS = 12
COLS = 27


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, y):
        return nn.functional.leaky_relu(x + y, self.slope), nn.functional.leaky_relu(x - y, self.slope)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [0.2]
