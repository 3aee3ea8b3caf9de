import torch
import torch.nn as nn

BATCH = 5
ROWS = 23
COLS = 307


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS)]


def get_init_inputs():
    return []
