import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 5
HEIGHT = 27
WIDTH = 34


class Model(nn.Module):
    """Padding counts as zeros in the average."""

    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [3, 2, 1]
