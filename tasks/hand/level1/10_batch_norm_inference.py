import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
CHANNELS = 9
HEIGHT = 17
WIDTH = 19


class Model(nn.Module):
    """Batch norm with stored statistics, as at inference, whatever mode the module is in."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n = self.norm
        return F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, training=False, eps=1e-5)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
