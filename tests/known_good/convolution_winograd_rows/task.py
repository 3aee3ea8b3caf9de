import torch
import torch.nn as nn

N = 2
C = 3
S = 8
O = 4


class Model(nn.Module):
    def __init__(self, c, o):
        super().__init__()
        self.conv = nn.Conv2d(c, o, 3, padding=1, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(N, C, S, S)]


def get_init_inputs():
    return [C, O]