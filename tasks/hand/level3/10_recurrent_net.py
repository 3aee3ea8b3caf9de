import torch
import torch.nn as nn

BATCH = 6
STEPS = 11
FEATURES = 18
HIDDEN = 26


class Model(nn.Module):
    """A plain recurrent net over all steps; every state is returned."""

    def __init__(self, features, hidden):
        super().__init__()
        self.from_input = nn.Linear(features, hidden)
        self.from_state = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, h):
        states = []
        for t in range(x.shape[1]):
            h = torch.tanh(self.from_input(x[:, t]) + self.from_state(h))
            states.append(h)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, FEATURES), torch.randn(BATCH, HIDDEN)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
