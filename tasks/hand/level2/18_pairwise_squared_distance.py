import torch
import torch.nn as nn

ROWS_X = 52
ROWS_Y = 41
DEPTH = 30


class Model(nn.Module):
    def forward(self, x, y):
        cross = x @ y.t()
        return (x * x).sum(dim=1)[:, None] + (y * y).sum(dim=1)[None, :] - 2.0 * cross


def get_inputs():
    return [torch.randn(ROWS_X, DEPTH), torch.randn(ROWS_Y, DEPTH)]


def get_init_inputs():
    return []
