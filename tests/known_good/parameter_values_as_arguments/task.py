import torch
import torch.nn as nn

ROWS = 24
COLS = 200


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = nn.Parameter(torch.full((1,), -0.25))
        self.weights = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return torch.sigmoid(x) * self.scale + self.shift * self.weights[2]


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
