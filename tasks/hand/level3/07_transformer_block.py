import math

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 19
HEADS = 2
DEPTH = 16


class Model(nn.Module):
    """Norm, attention, norm, perceptron, each with its input added back."""

    def __init__(self, heads, depth):
        super().__init__()
        width = heads * depth
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(c // self.heads), dim=-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * DEPTH)]


def get_init_inputs():
    return [HEADS, DEPTH]
