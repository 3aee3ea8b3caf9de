import torch
import torch.nn as nn

batch_size = 1
in_channels = 2
out_channels = 4
depth = 5
height = 6
width = 5


class Model(nn.Module):
    """3D convolution, group normalisation, hardswish, mean over the volume."""

    def __init__(self, in_channels, out_channels, kernel_size, groups):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(groups, out_channels)

    def forward(self, x):
        x = self.group_norm(self.conv(x))
        return nn.functional.hardswish(x).mean(dim=[2, 3, 4])


def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, 3, 2]
