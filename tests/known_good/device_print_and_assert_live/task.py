import torch
import torch.nn as nn

N = 40


class Model(nn.Module):
    def forward(self, x):
        return x.square() + x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
