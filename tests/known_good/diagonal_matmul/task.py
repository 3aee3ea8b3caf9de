import torch
import torch.nn as nn

M = 31
N = 45


class Model(nn.Module):
    def forward(self, d, m):
        return torch.diag(d) @ m


def get_inputs():
    return [torch.randn(M), torch.randn(M, N)]


def get_init_inputs():
    return []
