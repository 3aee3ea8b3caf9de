import torch
import torch.nn as nn

BATCH = 3
STEPS = 40
WIDTH = 28


class Model(nn.Module):
    """A linear recurrence with one decay a channel, read out through a gate."""

    def __init__(self, width):
        super().__init__()
        self.decay = nn.Parameter(torch.randn(width))
        self.input = nn.Parameter(torch.randn(width))
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        a = torch.sigmoid(self.decay)
        h = torch.zeros(x.shape[0], x.shape[2], device=x.device, dtype=x.dtype)
        states = []
        for t in range(x.shape[1]):
            h = a * h + self.input * x[:, t]
            states.append(h)
        return torch.stack(states, dim=1) * torch.sigmoid(self.gate(x))


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
