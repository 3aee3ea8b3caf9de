import torch
import torch.nn as nn

ROWS = 37
FEATURES = 60
HIDDEN = 84
CLASSES = 21


class Model(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.linear1 = nn.Linear(features, hidden)
        self.linear2 = nn.Linear(hidden, hidden)
        self.linear3 = nn.Linear(hidden, classes)

    def forward(self, x):
        x = torch.relu(self.linear1(x))
        x = torch.tanh(self.linear2(x))
        return self.linear3(x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN, CLASSES]
