import torch
import torch.nn as nn

SIZE = 1111


class Model(nn.Module):
    def __init__(self, threshold, value):
        super().__init__()
        self.threshold, self.value = threshold, value

    def forward(self, x):
        return nn.functional.threshold(x, self.threshold, self.value)


def get_inputs():
    return [torch.randn(SIZE)]


def get_init_inputs():
    return [0.1, -2.0]
