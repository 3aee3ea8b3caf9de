import torch
import torch.nn as nn

M = 10
N = 16


class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d

    def forward(self, x):
        T = x.shape[1]
        inv = 1.0 / (10000 ** (torch.arange(0, self.d, 2, device=x.device).float() / self.d))
        ang = torch.outer(torch.arange(T, device=x.device).float(), inv)
        a, b = x[..., : self.d // 2], x[..., self.d // 2 :]
        return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], dim=-1)


def get_inputs():
    return [torch.randn(2, M, N)]


def get_init_inputs():
    return [N]
