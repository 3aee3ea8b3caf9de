import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {"double": x * 2, "half": x / 2}


def get_inputs():
    return [torch.randn(333)]


def get_init_inputs():
    return []
