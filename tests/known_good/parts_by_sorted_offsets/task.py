import torch
import torch.nn as nn


class Model(nn.Module):

    def forward(self, x, offsets):
        out = torch.zeros(offsets.shape[0] - 1, x.shape[1], device=x.device)
        idx = torch.bucketize(torch.arange(x.shape[0], device=x.device), offsets[1:-1], right=True)
        return out.index_add(0, idx, x)


def get_inputs():
    return [torch.randn(64, 32), torch.tensor([0, 7, 7, 40, 64])]


def get_init_inputs():
    return []
