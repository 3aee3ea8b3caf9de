import torch
import torch.nn as nn

N = 999


class Model(nn.Module):
    def forward(self, x, y):
        return ((x ^ y) << 3) | (x & 0xFF)


def get_inputs():
    return [torch.randint(0, 1 << 20, (N,), dtype=torch.int32), torch.randint(0, 1 << 20, (N,), dtype=torch.int32)]


def get_init_inputs():
    return []
