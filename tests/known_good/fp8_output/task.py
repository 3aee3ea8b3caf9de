import torch
import torch.nn as nn

M = 12
N = 60


class Model(nn.Module):
    def forward(self, x):
        return x.clamp(-400, 400).to(torch.float8_e4m3fn)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
