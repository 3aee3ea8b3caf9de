import torch
import torch.nn as nn

ROWS = 23
COLS = 75


class Model(nn.Module):
    def forward(self, x, to):
        return torch.zeros_like(x).index_copy(0, to, torch.tanh(x))


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randperm(ROWS)]


def get_init_inputs():
    return []
