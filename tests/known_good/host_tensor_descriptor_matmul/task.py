import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(96, 64, dtype=torch.float16), torch.randn(64, 128, dtype=torch.float16)]


def get_init_inputs():
    return []
