import torch
import torch.nn as nn

N = 500


class Model(nn.Module):
    def forward(self, x):
        return 1 + x * (2 + x * (3 + x * 4))


def get_inputs():
    return [torch.randn(N, dtype=torch.float64)]


def get_init_inputs():
    return []
