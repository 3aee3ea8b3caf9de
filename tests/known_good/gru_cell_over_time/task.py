import torch
import torch.nn as nn

BATCH = 3
STEPS = 5
INPUT = 6
HIDDEN = 8


class Model(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)
        self.hidden_size = hidden_size

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, 1), h


def get_inputs():
    return [torch.randn(BATCH, STEPS, INPUT)]


def get_init_inputs():
    return [INPUT, HIDDEN]
