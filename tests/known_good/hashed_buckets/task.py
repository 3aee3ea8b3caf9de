import torch
import torch.nn as nn
M = 60
V = 500
D = 40

class Model(nn.Module):
    def __init__(self, v, d):
        super().__init__()
        self.table = nn.Parameter(torch.randn(v, d))

    def forward(self, ids, x):
        h = (ids * 2654435761 ^ ids >> 7) % self.table.shape[0]
        s = 1 - 2 * ((ids * 40503 ^ ids >> 3) & 1)
        return self.table[h] * x * s[:, None]

def get_inputs():
    return [torch.randint(0, 100000, (M,)), torch.randn(M, D)]

def get_init_inputs():
    return [V, D]
