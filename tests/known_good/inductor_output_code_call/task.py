import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.tanh(x + y) * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(8, 60), torch.randn(60)]


def get_init_inputs():
    return []
