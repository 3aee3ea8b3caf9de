import torch
import torch.nn as nn

M = 3
N = 4
K = 25


class Model(nn.Module):
    def __init__(self, beta, threshold):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, x):
        return torch.nn.functional.softplus(x, self.beta, self.threshold)


def get_inputs():
    return [torch.randn(2, M, N, K) * 10]


def get_init_inputs():
    return [2.0, 20.0]
