import torch
import torch.nn as nn

BATCH = 4
LENGTH = 37
VOCABULARY = 101
WIDTH = 48


class Model(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.token = nn.Parameter(torch.randn(vocabulary, width))
        self.position = nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        return self.norm(self.token[ids] + self.position)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, LENGTH, WIDTH]
