import torch
import torch.nn as nn

M = 5
N = 9
K = 8


class Model(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.dw = nn.Conv2d(c, c, k, groups=c, padding=k // 2, bias=False)

    def forward(self, x):
        return self.dw(x)


def get_inputs():
    return [torch.randn(1, M, N, K)]


def get_init_inputs():
    return [M, 3]
