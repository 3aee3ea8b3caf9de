import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 3
HEIGHT = 6
WIDTH = 5


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return nn.functional.interpolate(x, scale_factor=self.scale, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [2]
