import torch
import torch.nn as nn

ROWS = 64
COLS = 111


class Model(nn.Module):
    """Columns to zero mean and unit variance, outliers cut, squares with their sign."""

    def forward(self, x):
        mean = x.mean(dim=0, keepdim=True)
        std = torch.sqrt(x.var(dim=0, unbiased=False, keepdim=True) + 1e-5)
        z = torch.clamp((x - mean) / std, -1.5, 1.5)
        return z * torch.abs(z)


def get_inputs():
    return [torch.randn(ROWS, COLS) * 2.0 - 0.5]


def get_init_inputs():
    return []
