import torch
import torch.nn as nn

M = 4
N = 30


class Model(nn.Module):
    def __init__(self, ci, co, k):
        super().__init__()
        self.conv = nn.Conv1d(ci, co, k, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, M, N)]


def get_init_inputs():
    return [M, 6, 3]
