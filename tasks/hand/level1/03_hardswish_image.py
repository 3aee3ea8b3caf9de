import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS = 5
HEIGHT = 31
WIDTH = 33


class Model(nn.Module):
    def forward(self, x):
        return F.hardswish(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 3.0]


def get_init_inputs():
    return []
