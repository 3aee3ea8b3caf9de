import torch
import torch.nn as nn

N = 120


class Model(nn.Module):
    def forward(self, x):
        torch.manual_seed(3)
        return torch.relu(x + 0.5 * torch.randn_like(x))


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
