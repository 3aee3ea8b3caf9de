import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.dw = nn.Conv2d(c, c, k, groups=c, padding=k // 2, bias=False)

    def forward(self, x):
        return self.dw(x)


def get_inputs():
    return [torch.randn(1, 5, 9, 8)]


def get_init_inputs():
    return [5, 3]
