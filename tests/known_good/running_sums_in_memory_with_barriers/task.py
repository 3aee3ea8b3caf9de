import torch
import torch.nn as nn

ROWS = 24
COLS = 72


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x.view(x.shape[0], 9, 8), 1).reshape(x.shape)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
