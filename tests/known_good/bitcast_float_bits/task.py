import torch
import torch.nn as nn

N = 1500


class Model(nn.Module):
    """The bits of each float as int32, and the float with its sign cleared by a mask."""

    def forward(self, x):
        bits = x.view(torch.int32)
        return bits, (bits & 0x7FFFFFFF).view(torch.float32)


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
