import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 75
FEATURES = 46
WIDTH = 91


class Model(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.linear = nn.Linear(features, width)

    def forward(self, x):
        return F.leaky_relu(torch.logsumexp(self.linear(x) * 3.0, dim=1, keepdim=True) - 6.0, 0.1)


def get_inputs():
    return [torch.randn(ROWS, FEATURES) * 2.0]


def get_init_inputs():
    return [FEATURES, WIDTH]
