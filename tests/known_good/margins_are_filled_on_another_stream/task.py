import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 48
COLS = 96


class Model(nn.Module):
    def forward(self, x):
        return F.pad(torch.relu(x) * 2, (0, 0, 3, 3))


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
