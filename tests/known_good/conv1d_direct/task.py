import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, ci, co, k):
        super().__init__()
        self.conv = nn.Conv1d(ci, co, k, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 4, 30)]


def get_init_inputs():
    return [4, 6, 3]
