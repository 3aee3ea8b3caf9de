import torch
import torch.nn as nn

N = 300


class Model(nn.Module):
    """Scales where a counter-based hash is even; the hash stands for a deterministic dropout mask."""

    def forward(self, x, seed):
        i = torch.arange(x.numel(), device=x.device, dtype=torch.int64)
        h = (i * 2654435761 + seed) & 0xFFFFFFFF
        h = (h ^ (h >> 15)) * 739982445 & 0xFFFFFFFF
        keep = (h >> 12) % 2 == 0
        return torch.where(keep, x * 2.0, torch.zeros_like(x))


def get_inputs():
    return [torch.randn(N), 1234]


def get_init_inputs():
    return []
