import torch
import torch.nn as nn

MAX_LEN = 64
T = 20
D = 8


class Model(nn.Module):
    def __init__(self, max_len, d):
        super().__init__()
        self.d = d

    def forward(self, x):
        pos = torch.arange(x.shape[0], device=x.device, dtype=x.dtype)[:, None]
        f = 10000 ** (-torch.arange(0, self.d, device=x.device, dtype=x.dtype) / self.d)
        return x * torch.cos(pos * f)


def get_inputs():
    return [torch.randn(T, D)]


def get_init_inputs():
    return [MAX_LEN, D]
