import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        outs = []
        for lo, hi in ((0, 20), (20, 33), (33, 70)):
            s = q[lo:hi] @ k[lo:hi].t() * 0.25
            outs.append(torch.softmax(s, -1) @ v[lo:hi])
        return torch.cat(outs)


def get_inputs():
    return [torch.randn(70, 16), torch.randn(70, 16), torch.randn(70, 16)]


def get_init_inputs():
    return []
