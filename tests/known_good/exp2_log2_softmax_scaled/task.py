import torch
import torch.nn as nn

HEADS = 4
QUERIES = 9
KEYS = 61


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, scores):
        return torch.softmax(scores / self.temperature, dim=-1), torch.logsumexp(scores / self.temperature, dim=-1)


def get_inputs():
    return [torch.randn(HEADS, QUERIES, KEYS) * 3]


def get_init_inputs():
    return [0.7]
