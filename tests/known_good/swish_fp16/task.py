import torch
import torch.nn as nn

M = 64
N = 129


class Model(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(M, N).half()]


def get_init_inputs():
    return []
