import torch
import torch.nn as nn

ROWS = 45
COLS = 22


class Model(nn.Module):
    def forward(self, x):
        values, indices = torch.min(x, dim=0)
        return {"values": values, "indices": indices}


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
