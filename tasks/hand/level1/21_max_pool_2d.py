import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS = 4
HEIGHT = 35
WIDTH = 29


class Model(nn.Module):
    def __init__(self, kernel, stride):
        super().__init__()
        self.kernel = kernel
        self.stride = stride

    def forward(self, x):
        return F.max_pool2d(x, self.kernel, stride=self.stride)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [3, 2]
