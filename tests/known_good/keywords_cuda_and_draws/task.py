import torch
import torch.nn as nn

M, N = 32, 40


class Model(nn.Module):
    def __init__(self, n, scale=1.0):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n) * scale)

    def forward(self, x, y):
        h = torch.randn(x.shape[1], device=x.device)
        return {"a": x * self.w + y + h, "n": 3}


def get_inputs():
    return {"x": torch.rand(M, N).cuda(), "y": torch.rand(M, N, device="cuda")}


def get_init_inputs():
    return [[], {"n": N, "scale": 2.0}]
