import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, ci, co, k):
        super().__init__()
        self.conv2d = nn.Conv2d(ci, co, k, stride=2)

    def forward(self, x):
        return self.conv2d(x)


def get_inputs():
    return [torch.randn(2, 3, 11, 13)]


def get_init_inputs():
    return [3, 4, 3]
