import torch
import torch.nn as nn

N = 333


class Model(nn.Module):
    def forward(self, x):
        return {"double": x * 2, "half": x / 2}


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
