import torch
import torch.nn as nn

M = 9
N = 64


class Model(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.nn.functional.silu(a) * b


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
