import torch
import torch.nn as nn

BATCH = 4
ROWS = 13
COLS = 193


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS) * 1.5 + 0.3]


def get_init_inputs():
    return [COLS]
