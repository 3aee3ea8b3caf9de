import torch
import torch.nn as nn

ROWS = 301
COLS = 205


class Model(nn.Module):
    def forward(self, a, v):
        return torch.mv(a, v)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS)]


def get_init_inputs():
    return []
