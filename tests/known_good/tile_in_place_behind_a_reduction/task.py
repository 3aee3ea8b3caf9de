import torch
import torch.nn as nn

ROWS = 64
COLS = 32


class Model(nn.Module):
    def forward(self, x):
        return x / (1.0 + x.abs().sum(-1, keepdim=True))


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
