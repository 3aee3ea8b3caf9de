import torch
import torch.nn as nn

BATCH = 2
CHANNELS_IN = 6
CHANNELS_OUT = 4
LENGTH = 43


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.ConvTranspose1d(channels_in, channels_out, 4, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, LENGTH)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
