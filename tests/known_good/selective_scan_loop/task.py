import torch
import torch.nn as nn

BATCH = 2
STEPS = 13
DIM = 5
STATE = 4


class Model(nn.Module):
    """Selective state space: h = exp(dt A) h + dt B x; y = C h + D x."""

    def __init__(self, dim, state):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(dim, 1))
        self.D = nn.Parameter(torch.ones(dim))

    def forward(self, x, dt, B, C):
        A = -torch.exp(self.A_log)
        dt = nn.functional.softplus(dt)
        h = x.new_zeros(x.shape[0], x.shape[2], A.shape[1])
        ys = []
        for t in range(x.shape[1]):
            h = torch.exp(dt[:, t, :, None] * A) * h + dt[:, t, :, None] * B[:, t, None, :] * x[:, t, :, None]
            ys.append((h * C[:, t, None, :]).sum(-1) + self.D * x[:, t])
        return torch.stack(ys, dim=1)


def get_inputs():
    return [
        torch.randn(BATCH, STEPS, DIM),
        torch.randn(BATCH, STEPS, DIM),
        torch.randn(BATCH, STEPS, STATE),
        torch.randn(BATCH, STEPS, STATE),
    ]


def get_init_inputs():
    return [DIM, STATE]
