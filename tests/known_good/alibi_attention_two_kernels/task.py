import torch
import torch.nn as nn

HEADS = 3
SEQ = 20
DIM = 8


class Model(nn.Module):
    """Attention with a bias that grows linearly with distance, one slope a head."""

    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", torch.tensor([2.0 ** (-(h + 1)) for h in range(heads)]))

    def forward(self, q, k, v):
        t = q.shape[1]
        i = torch.arange(t, device=q.device)
        bias = -(i[:, None] - i[None, :]).abs().to(q.dtype)
        s = q @ k.transpose(1, 2) / q.shape[2] ** 0.5 + self.slopes[:, None, None] * bias
        return torch.softmax(s, -1) @ v


def get_inputs():
    return [torch.randn(HEADS, SEQ, DIM), torch.randn(HEADS, SEQ, DIM), torch.randn(HEADS, SEQ, DIM)]


def get_init_inputs():
    return [HEADS]
