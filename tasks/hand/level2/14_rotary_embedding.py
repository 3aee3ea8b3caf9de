import torch
import torch.nn as nn

BATCH = 2
LENGTH = 31
HEADS = 3
DEPTH = 32


class Model(nn.Module):
    """Rotates the two halves of each head by an angle that grows with the position."""

    def forward(self, x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        cos, sin = cos[None, :, None, :], sin[None, :, None, :]
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


def get_inputs():
    angle = torch.arange(LENGTH)[:, None] * torch.pow(10000.0, -torch.arange(DEPTH // 2) / (DEPTH // 2))[None, :]
    return [torch.randn(BATCH, LENGTH, HEADS, DEPTH), torch.cos(angle), torch.sin(angle)]


def get_init_inputs():
    return []
