import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, a, b, bias):
        return F.leaky_relu(a @ b + bias, 0.1)


def get_inputs():
    return [torch.randn(128, 96, dtype=torch.bfloat16), torch.randn(96, 64, dtype=torch.bfloat16), torch.randn(64, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
