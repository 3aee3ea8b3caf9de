import torch
import torch.nn as nn

N = 45


class Model(nn.Module):
    """
    Product of two lower triangular matrices.
    """

    def forward(self, A, B):
        return torch.tril(torch.matmul(A, B))


def get_inputs():
    return [torch.tril(torch.randn(N, N)), torch.tril(torch.randn(N, N))]


def get_init_inputs():
    return []
