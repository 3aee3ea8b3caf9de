import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 34
WIDTH = 58
HIDDEN = 77


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.up(x) * F.silu(self.gate(x))


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
