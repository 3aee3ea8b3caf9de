import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        n = a.shape[-1]
        lower = torch.tril(a, -1) * 0.1 + torch.eye(n, dtype=a.dtype, device=a.device) * 2.0
        return torch.linalg.solve_triangular(lower, b, upper=False)


def get_inputs():
    return [torch.randn(32, 32), torch.randn(32, 20)]


def get_init_inputs():
    return []
