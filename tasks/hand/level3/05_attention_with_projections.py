import math

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 29
WIDTH = 40


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), dim=-1)
        return weights @ v


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH) * 2.0]


def get_init_inputs():
    return [WIDTH]
