import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, idx):
        return torch.gather(x, 1, idx)


def get_inputs():
    return [torch.randn(6, 30), torch.randint(0, 30, (6, 9))]


def get_init_inputs():
    return []
