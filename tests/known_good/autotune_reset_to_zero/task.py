import torch
import torch.nn as nn

ROWS = 31
COLS = 40


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x > 0, dim=0, dtype=torch.int32)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
