import torch
import torch.nn as nn

ROWS = 8
PAIRS = 24


class Model(nn.Module):
    """Complex multiplication of interleaved pairs."""

    def forward(self, x, y):
        a, b = x[..., 0::2], x[..., 1::2]
        c, d = y[..., 0::2], y[..., 1::2]
        return torch.stack([a * c - b * d, a * d + b * c], dim=-1).flatten(-2)


def get_inputs():
    return [torch.randn(ROWS, 2 * PAIRS), torch.randn(ROWS, 2 * PAIRS)]


def get_init_inputs():
    return []
