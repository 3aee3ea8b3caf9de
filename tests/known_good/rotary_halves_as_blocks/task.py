import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
LENGTH = 24
HEAD_DIM = 32


class Model(nn.Module):
    def forward(self, x, cos, sin):
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def get_inputs():
    angle = torch.rand(LENGTH, HEAD_DIM // 2) * 6
    return [torch.randn(BATCH, HEADS, LENGTH, HEAD_DIM), torch.cos(angle), torch.sin(angle)]


def get_init_inputs():
    return []
