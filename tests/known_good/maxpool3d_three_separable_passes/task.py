import torch
import torch.nn as nn

BATCH = 1
CHANNELS = 2
SIZE = 9


class Model(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel, stride=1)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE, SIZE)]


def get_init_inputs():
    return [3]
