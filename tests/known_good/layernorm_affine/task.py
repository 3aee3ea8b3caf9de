import torch
import torch.nn as nn

M = 3
N = 14
K = 96


class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)

    def forward(self, x):
        return self.ln(x)


def get_inputs():
    return [torch.randn(M, N, K)]


def get_init_inputs():
    return [K]
