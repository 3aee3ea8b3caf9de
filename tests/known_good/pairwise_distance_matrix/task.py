import torch
import torch.nn as nn

N = 21
M = 17
DIM = 12


class Model(nn.Module):
    def forward(self, a, b):
        return ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)


def get_inputs():
    return [torch.randn(N, DIM), torch.randn(M, DIM)]


def get_init_inputs():
    return []
