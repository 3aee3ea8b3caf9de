import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
TOKENS = 21
WIDTH = 32


class Model(nn.Module):
    """Mixes over positions, then over channels."""

    def __init__(self, tokens, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.across = nn.Linear(tokens, tokens)
        self.norm2 = nn.LayerNorm(width)
        self.within = nn.Linear(width, width)

    def forward(self, x):
        x = x + F.gelu(self.across(self.norm1(x).transpose(1, 2))).transpose(1, 2)
        return x + F.gelu(self.within(self.norm2(x)))


def get_inputs():
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_init_inputs():
    return [TOKENS, WIDTH]
