import torch
import torch.nn as nn

M = 9
N = 32


class Model(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.fc = nn.Linear(d, h, bias=False)

    def forward(self, x):
        return torch.nn.functional.gelu(self.fc(x))


def get_inputs():
    return [torch.randn(2, M, N)]


def get_init_inputs():
    return [N, 16]
