import torch
import torch.nn as nn

N = 600


class Model(nn.Module):
    def forward(self, a, b):
        return torch.clamp(a.int() + b.int(), -32768, 32767).to(torch.int16)


def get_inputs():
    return [torch.randint(-32768, 32768, (N,), dtype=torch.int16), torch.randint(-32768, 32768, (N,), dtype=torch.int16)]


def get_init_inputs():
    return []
