import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        p = torch.softmax(x, -1)
        v, i = torch.topk(p, 2, dim=-1)
        return v / v.sum(-1, keepdim=True), i


def get_inputs():
    return [torch.randn(70, 16)]


def get_init_inputs():
    return []
