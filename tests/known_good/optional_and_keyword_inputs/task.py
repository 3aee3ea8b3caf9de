import torch
import torch.nn as nn

ROWS = 10
COLS = 21


class Model(nn.Module):
    def forward(self, x, bias=None, negate=False, scale=1.0, mode="sum"):
        y = x * scale
        if bias is not None:
            y = y + bias
        if negate:
            y = -y
        return y.sum(-1) if mode == "sum" else y


def get_inputs():
    return [torch.randn(ROWS, COLS), None, True, 0.75, "sum"]


def get_init_inputs():
    return []
