import torch
import torch.nn as nn

BATCH = 10
D = 24
H = 12


class Model(nn.Module):
    """Two projections of one input, multiplied."""

    def __init__(self, d, h):
        super().__init__()
        self.gate = nn.Linear(d, h, bias=False)
        self.value = nn.Linear(d, h, bias=False)

    def forward(self, x):
        return torch.sigmoid(self.gate(x)) * self.value(x)


def get_inputs():
    return [torch.randn(BATCH, D)]


def get_init_inputs():
    return [D, H]
