import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, e, d, h):
        super().__init__()
        self.w = nn.Parameter(torch.randn(e, d, h) * 0.1)

    def forward(self, x, expert):
        return torch.bmm(x.unsqueeze(1), self.w[expert]).squeeze(1)


def get_inputs():
    return [torch.randn(60, 64), torch.randint(0, 4, (60,))]


def get_init_inputs():
    return [4, 64, 48]
