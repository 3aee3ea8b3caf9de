import torch
import torch.nn as nn

BATCH = 3
CHANNELS_IN = 6
CHANNELS_OUT = 10
LENGTH = 75


class Model(nn.Module):
    def __init__(self, channels_in, channels_out, kernel):
        super().__init__()
        self.conv = nn.Conv1d(channels_in, channels_out, kernel, padding=kernel // 2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, LENGTH)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT, 5]
