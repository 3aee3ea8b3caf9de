import torch
import torch.nn as nn

M = 24
N = 40
K = 56


class Model(nn.Module):
    def forward(self, a, b):
        return a.float() @ b.float()


def get_inputs():
    return [torch.randn(M, K).bfloat16(), torch.randn(K, N).bfloat16()]


def get_init_inputs():
    return []
