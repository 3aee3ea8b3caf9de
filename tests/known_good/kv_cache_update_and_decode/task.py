import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, cache, new, position, q):
        cache = cache.clone()
        cache[:, position] = new.unsqueeze(1)
        s = torch.einsum("bd,bld->bl", q, cache)
        return torch.einsum("bl,bld->bd", torch.softmax(s, -1), cache), cache


def get_inputs():
    return [torch.randn(5, 48, 32), torch.randn(5, 32), torch.tensor([17]), torch.randn(5, 32)]


def get_init_inputs():
    return []
