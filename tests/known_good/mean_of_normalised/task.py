import torch
import torch.nn as nn

ROWS = 6
CHANNELS = 8
WIDTH = 40
groups = 2


class Model(nn.Module):
    """With the constructor's own weights the mean is zero but for roundings: only other weights tell
    right from wrong."""

    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x).mean(dim=[1, 2])


def get_inputs():
    return [torch.randn(ROWS, CHANNELS, WIDTH)]


def get_init_inputs():
    return [CHANNELS, groups]
