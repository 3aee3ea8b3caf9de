import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
ROWS = 37
COLS = 129


class Model(nn.Module):
    def forward(self, x):
        return F.gelu(x)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS)]


def get_init_inputs():
    return []
