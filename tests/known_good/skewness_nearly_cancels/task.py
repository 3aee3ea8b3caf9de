import torch
import torch.nn as nn

ROWS = 16
COLS = 128


class Model(nn.Module):
    """Layer normalisation and the skewness of each row, whose sum nearly cancels."""

    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d, elementwise_affine=False)

    def forward(self, x):
        y = self.ln(x)
        return y, y.pow(3).mean(-1)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
