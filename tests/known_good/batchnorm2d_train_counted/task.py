import torch
import torch.nn as nn

batch_size = 4
channels = 5
height = 6
width = 7


class Model(nn.Module):
    """Batch normalisation in training mode: batch statistics, and the running ones move."""

    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.bn(x)


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels]
