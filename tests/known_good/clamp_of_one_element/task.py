import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    def forward(self, x):
        return x + torch.relu(x[x.numel() // 2]) * 2


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
