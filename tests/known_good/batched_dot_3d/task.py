import torch
import torch.nn as nn

GROUPS = 3
M = 18
N = 20
K = 33


class Model(nn.Module):
    def forward(self, a, b):
        return torch.einsum("gmk,gnk->gmn", a, b)


def get_inputs():
    return [torch.randn(GROUPS, M, K), torch.randn(GROUPS, N, K)]


def get_init_inputs():
    return []
