import torch
import torch.nn as nn

M = 10
N = 12
K = 25


class Model(nn.Module):
    def forward(self, base, idx, src):
        return base.clone().index_add_(0, idx, src)


def get_inputs():
    return [torch.randn(M, N), torch.randint(0, 10, (K,)), torch.randn(K, N)]


def get_init_inputs():
    return []
