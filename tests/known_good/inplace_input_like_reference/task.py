import torch
import torch.nn as nn

ROWS = 13
COLS = 31


class Model(nn.Module):
    """Residual added in place, as the reference does: the first input itself comes back."""

    def forward(self, x, update):
        x.add_(update, alpha=0.5)
        return x.relu_()


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
