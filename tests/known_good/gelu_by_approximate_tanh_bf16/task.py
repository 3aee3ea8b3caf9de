import torch
import torch.nn as nn

ROWS = 24
COLS = 72


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate='tanh')


def get_inputs():
    return [torch.randn(ROWS, COLS).to(torch.bfloat16)]


def get_init_inputs():
    return []
