import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS = 6
EXPANSION = 3
SIZE = 14


class Model(nn.Module):
    """Widen by 1x1, filter each channel, narrow by 1x1, add the input."""

    def __init__(self, channels, expansion):
        super().__init__()
        hidden = channels * expansion
        self.widen = nn.Conv2d(channels, hidden, 1)
        self.filter = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.narrow = nn.Conv2d(hidden, channels, 1)

    def forward(self, x):
        y = F.relu6(self.widen(x))
        y = F.relu6(self.filter(y))
        return x + self.narrow(y)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE) * 2.0]


def get_init_inputs():
    return [CHANNELS, EXPANSION]
