import torch
import torch.nn as nn

M = 6
N = 30
K = 9


class Model(nn.Module):
    def forward(self, x, idx):
        return torch.gather(x, 1, idx)


def get_inputs():
    return [torch.randn(M, N), torch.randint(0, 30, (M, K))]


def get_init_inputs():
    return []
