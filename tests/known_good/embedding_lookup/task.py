import torch
import torch.nn as nn

M = 3
N = 8


class Model(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.emb = nn.Embedding(n, d)

    def forward(self, idx):
        return self.emb(idx)


def get_inputs():
    return [torch.randint(0, 50, (M, N))]


def get_init_inputs():
    return [50, 20]
