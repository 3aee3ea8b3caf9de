import torch
import torch.nn as nn


M = 24
N = 72


class Model(nn.Module):

    def forward(self, x):
        i = x.view(torch.int32)
        return ((i >> 8) & 0xff).float()


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
