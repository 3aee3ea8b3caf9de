import torch
import torch.nn as nn

BATCH = 6
STEPS = 100


class Model(nn.Module):
    """h[t] = a[t] * h[t-1] + b[t], the recurrence of linear state-space layers."""

    def forward(self, a, b):
        a = torch.sigmoid(a)
        h = torch.zeros_like(b[:, 0])
        out = []
        for t in range(b.shape[1]):
            h = a[:, t] * h + b[:, t]
            out.append(h)
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(BATCH, STEPS), torch.randn(BATCH, STEPS)]


def get_init_inputs():
    return []
