import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 113
CLASSES = 47


class Model(nn.Module):
    """One loss a sample: a mean over samples would hide which of them are wrong."""

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, reduction="none")


def get_inputs():
    return [torch.randn(ROWS, CLASSES) * 3.0, torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []
