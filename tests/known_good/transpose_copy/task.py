import torch
import torch.nn as nn

M = 35
N = 50


class Model(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1).contiguous() + 0.5


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
