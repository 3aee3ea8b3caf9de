import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS_IN = 3
CHANNELS_OUT = 5
HEIGHT = 26
WIDTH = 22


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)

    def forward(self, x):
        return torch.tanh(F.max_pool2d(self.conv(x), 2))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
