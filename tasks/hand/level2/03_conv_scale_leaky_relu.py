import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS_IN = 4
CHANNELS_OUT = 6
HEIGHT = 18
WIDTH = 23


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)
        self.scale = nn.Parameter(torch.randn(channels_out, 1, 1))

    def forward(self, x):
        return F.leaky_relu(self.conv(x) * self.scale, 0.2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
