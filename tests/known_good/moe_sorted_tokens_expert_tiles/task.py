import torch
import torch.nn as nn

class Model(nn.Module):
    """Each token goes through the one expert that its id names."""
    def forward(self, x, ids, w):
        return torch.einsum("tk,tkn->tn", x, w[ids])


def get_inputs():
    return [torch.randn(40, 32), torch.randint(0, 4, (40,)), torch.randn(4, 32, 48)]


def get_init_inputs():
    return []
