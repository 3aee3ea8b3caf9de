import torch
import torch.nn as nn

ROWS = 12
COLS = 150


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1), torch.logsumexp(x, dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLS) * 3]


def get_init_inputs():
    return []
