import torch
import torch.nn as nn

M = 8
N = 7
K = 33


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.hardswish(x.float()).to(x.dtype)


def get_inputs():
    return [torch.randn(M, N, K).to(torch.bfloat16)]


def get_init_inputs():
    return []
