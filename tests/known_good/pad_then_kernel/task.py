import torch
import torch.nn as nn

M = 5
N = 26


class Model(nn.Module):
    def forward(self, x):
        x = torch.nn.functional.pad(x, (1, 1))
        return x[:, :-2] + x[:, 1:-1] + x[:, 2:]


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
