import torch
import torch.nn as nn

ROWS = 57
WIDTH = 160


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, residual):
        return self.norm(x + residual)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH) * 0.5]


def get_init_inputs():
    return [WIDTH]
