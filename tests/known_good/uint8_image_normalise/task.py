import torch
import torch.nn as nn

BATCH = 2
HEIGHT = 9
WIDTH = 11


class Model(nn.Module):
    """HWC bytes to CHW floats, normalised by channel."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]))

    def forward(self, image):
        x = image.permute(0, 3, 1, 2).to(self.mean.dtype) / 255
        return (x - self.mean[:, None, None]) / self.std[:, None, None]


def get_inputs():
    return [torch.randint(0, 256, (BATCH, HEIGHT, WIDTH, 3), dtype=torch.uint8)]


def get_init_inputs():
    return []
