import torch
import torch.nn as nn

ROWS = 9
COLS = 34


class Model(nn.Module):
    def forward(self, x):
        return (x.float() - x.float().amax(dim=-1, keepdim=True)).to(x.dtype)


def get_inputs():
    return [torch.randn(ROWS, COLS).half()]


def get_init_inputs():
    return []
