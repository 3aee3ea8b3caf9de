import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 6
HEIGHT = 5
WIDTH = 8


class Model(nn.Module):
    """Channel-wise scale and shift; the input lies in channels_last order."""

    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return x * self.scale.view(1, -1, 1, 1) + self.shift.view(1, -1, 1, 1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH).contiguous(memory_format=torch.channels_last)]


def get_init_inputs():
    return [CHANNELS]
