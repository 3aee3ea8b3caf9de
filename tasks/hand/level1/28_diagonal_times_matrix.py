import torch
import torch.nn as nn

ROWS = 103
COLS = 89


class Model(nn.Module):
    def forward(self, d, b):
        return torch.diag(d) @ b


def get_inputs():
    return [torch.randn(ROWS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
