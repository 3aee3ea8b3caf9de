import torch
import torch.nn as nn

N = 1024


class Model(nn.Module):
    def forward(self, x, order):
        out = torch.empty_like(x)
        out[order] = torch.relu(x) * 2
        return out


def get_inputs():
    return [torch.randn(N), torch.randperm(N)]


def get_init_inputs():
    return []
