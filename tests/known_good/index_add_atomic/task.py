import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, base, idx, src):
        return base.clone().index_add_(0, idx, src)


def get_inputs():
    return [torch.randn(10, 12), torch.randint(0, 10, (25,)), torch.randn(25, 12)]


def get_init_inputs():
    return []
