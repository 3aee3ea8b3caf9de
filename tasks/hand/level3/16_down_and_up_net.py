import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 3
SIZE = 16


class Model(nn.Module):
    """Halves an image, doubles it again and joins it with what it was."""

    def __init__(self, channels):
        super().__init__()
        self.down = nn.Conv2d(channels, 8, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, channels, 2, stride=2)
        self.join = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x):
        y = torch.relu(self.down(x))
        y = torch.relu(self.middle(y))
        return self.join(torch.cat([x, torch.relu(self.up(y))], dim=1))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
