import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


batch_size = 6144
dim = 393216


def get_inputs():
    return [torch.rand(batch_size, dim, dtype=torch.float16)]


def get_init_inputs():
    return []
