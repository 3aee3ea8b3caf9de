import torch
import torch.nn as nn

ROWS = 24
COLS = 96


class Model(nn.Module):
    def forward(self, x):
        out = [x[0], x[1], x[2], x[3], x[4], x[5]]
        for t in range(6, x.shape[0]):
            out.append(out[t - 6] * 0.5 + x[t])
        return torch.stack(out)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
