import math
import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
KV_HEADS = 2
SEQ = 37
HEAD_DIM = 16


class Model(nn.Module):
    """Grouped-query attention: query heads share key and value heads."""

    def forward(self, q, k, v):
        group = q.shape[1] // k.shape[1]
        k = k.repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        t = q.shape[2]
        keep = torch.tril(torch.ones(t, t, dtype=torch.bool, device=q.device))
        scores = scores.masked_fill(~keep, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), v)


def get_inputs():
    return [
        torch.randn(BATCH, HEADS, SEQ, HEAD_DIM),
        torch.randn(BATCH, KV_HEADS, SEQ, HEAD_DIM),
        torch.randn(BATCH, KV_HEADS, SEQ, HEAD_DIM),
    ]


def get_init_inputs():
    return []
