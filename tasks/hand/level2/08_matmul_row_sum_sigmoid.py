import torch
import torch.nn as nn

M = 63
K = 50
N = 79


class Model(nn.Module):
    """The sum of a product's rows; a product with the summed columns is the same."""

    def forward(self, a, b):
        return torch.sigmoid(torch.matmul(a, b).sum(dim=1) * 0.05)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
