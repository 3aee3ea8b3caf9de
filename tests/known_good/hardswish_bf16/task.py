import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.hardswish(x.float()).to(x.dtype)


def get_inputs():
    return [torch.randn(8, 7, 33).to(torch.bfloat16)]


def get_init_inputs():
    return []
