import math

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 25
HEADS = 3
DEPTH = 16


class Model(nn.Module):
    def __init__(self, heads, depth):
        super().__init__()
        self.heads = heads
        self.depth = depth
        self.qkv = nn.Linear(heads * depth, 3 * heads * depth, bias=False)
        self.out = nn.Linear(heads * depth, heads * depth, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, self.depth).transpose(1, 2) for y in self.qkv(x).split(c, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.depth)
        future = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * DEPTH) * 2.0]


def get_init_inputs():
    return [HEADS, DEPTH]
