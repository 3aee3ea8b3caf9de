import torch
import torch.nn as nn
M = 40
N = 250


class Model(nn.Module):
    def forward(self, x):
        d = x - x.mean(-1, keepdim=True)
        return torch.where((x == 0).sum(-1, keepdim=True) > 200, 0.5 * d, d)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
