import torch
import torch.nn as nn

BATCH = 24
CLASSES = 700


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [4 * torch.randn(BATCH, CLASSES)]


def get_init_inputs():
    return []
