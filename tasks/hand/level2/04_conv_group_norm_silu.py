import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS_IN = 3
CHANNELS_OUT = 8
HEIGHT = 16
WIDTH = 21


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.GroupNorm(2, channels_out)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
