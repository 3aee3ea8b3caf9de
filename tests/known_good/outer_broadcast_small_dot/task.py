import torch
import torch.nn as nn

ROWS = 30
K = 7
COLS = 19


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(ROWS, K), torch.randn(K, COLS)]


def get_init_inputs():
    return []
