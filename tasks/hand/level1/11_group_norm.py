import torch
import torch.nn as nn

BATCH = 3
CHANNELS = 12
LENGTH = 45


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH) - 0.4]


def get_init_inputs():
    return [4, CHANNELS]
