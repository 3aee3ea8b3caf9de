import torch
import torch.nn as nn

M = 16
N = 32


class Model(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (D // self.heads) ** -0.5, dim=-1)
        return (a @ v).transpose(1, 2).reshape(B, T, D)


def get_inputs():
    return [torch.randn(2, M, N)]


def get_init_inputs():
    return [N, 2]
