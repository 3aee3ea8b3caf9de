import torch
import torch.nn as nn

NODES = 44
FEATURES = 23
WIDTH = 39


class Model(nn.Module):
    """Averages each node's neighbours and itself, then a linear layer, twice."""

    def __init__(self, features, width):
        super().__init__()
        self.linear1 = nn.Linear(features, width)
        self.linear2 = nn.Linear(width, width)

    def forward(self, x, edges):
        a = edges + torch.eye(edges.shape[0], device=edges.device, dtype=edges.dtype)
        a = a / a.sum(dim=1, keepdim=True)
        return self.linear2(a @ torch.relu(self.linear1(a @ x)))


def get_inputs():
    return [torch.randn(NODES, FEATURES), (torch.rand(NODES, NODES) > 0.8).float()]


def get_init_inputs():
    return [FEATURES, WIDTH]
