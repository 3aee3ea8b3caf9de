import torch
import torch.nn as nn

ROWS = 33
FEATURES = 38
HIDDEN = 45


class Model(nn.Module):
    """One step of a gated recurrent unit."""

    def __init__(self, features, hidden):
        super().__init__()
        self.from_input = nn.Linear(features, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, x, h):
        xr, xz, xn = self.from_input(x).chunk(3, dim=-1)
        hr, hz, hn = self.from_state(h).chunk(3, dim=-1)
        reset = torch.sigmoid(xr + hr)
        keep = torch.sigmoid(xz + hz)
        return keep * h + (1.0 - keep) * torch.tanh(xn + reset * hn)


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randn(ROWS, HIDDEN)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
