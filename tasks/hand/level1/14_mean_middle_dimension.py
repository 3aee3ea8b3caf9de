import torch
import torch.nn as nn

BATCH = 4
ROWS = 101
COLS = 39


class Model(nn.Module):
    def forward(self, x):
        return torch.mean(x, dim=1)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS)]


def get_init_inputs():
    return []
