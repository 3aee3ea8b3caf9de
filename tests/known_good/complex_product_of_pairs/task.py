import torch
import torch.nn as nn

ROWS = 24
COLS = 72


class Model(nn.Module):
    def forward(self, x, y):
        return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y))


def get_inputs():
    return [torch.randn(ROWS, COLS, 2), torch.randn(ROWS, COLS, 2)]


def get_init_inputs():
    return []
