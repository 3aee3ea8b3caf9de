import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a.float() @ b.float()).to(torch.bfloat16)


def get_inputs():
    return [torch.randn(32, 48).bfloat16(), torch.randn(48, 32).bfloat16()]


def get_init_inputs():
    return []
