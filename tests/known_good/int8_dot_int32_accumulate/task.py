import torch
import torch.nn as nn

M = 20
N = 36
K = 64


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.int(), b.int())


def get_inputs():
    return [torch.randint(-128, 128, (M, K), dtype=torch.int8), torch.randint(-128, 128, (K, N), dtype=torch.int8)]


def get_init_inputs():
    return []
