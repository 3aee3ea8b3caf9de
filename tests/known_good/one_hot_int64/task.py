import torch
import torch.nn as nn

N = 14


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, x):
        return torch.nn.functional.one_hot(x, self.classes)


def get_inputs():
    return [torch.randint(0, 9, (N,))]


def get_init_inputs():
    return [9]
