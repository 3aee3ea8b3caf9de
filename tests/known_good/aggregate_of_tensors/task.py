import torch
import torch.nn as nn

ROWS = 9
COLS = 300


class Model(nn.Module):
    def forward(self, x):
        return (x - x.mean(dim=-1, keepdim=True)) / torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + 1e-3)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
