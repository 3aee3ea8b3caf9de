import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().amax(-1, keepdim=True) / 127.0 + 1e-12
        return torch.round(x / s).to(torch.int8), s


def get_inputs():
    return [torch.randn(40, 256)]


def get_init_inputs():
    return []
