import torch
import torch.nn as nn

M = 60
N = 37


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=0)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
