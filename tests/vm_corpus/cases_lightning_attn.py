"""lightning-attn: linear attention with decay, and a norm."""
# packages: lightning-attn einops
import torch
from corpus import Case
from lightning_attn.ops.triton import lightning_attn2, lightning_attn2_no_decay

randn = torch.randn


def decayed(q, k, v, s):
    n = q.shape[2]
    at = torch.arange(n)
    gap = (at[:, None] - at[None]).float()
    weight = torch.exp(-s.float().view(-1, 1, 1) * gap).masked_fill(gap < 0, 0)
    return torch.einsum("bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q.float(), k.float()) * weight, v.float())


def inputs(n):
    return lambda: (randn(1, 2, n, 64) * 0.2, randn(1, 2, n, 64) * 0.2, randn(1, 2, n, 64))


CASES = [
    Case("decay", lambda q, k, v: lightning_attn2(q, k, v, torch.tensor([0.1, 0.02])),
         lambda q, k, v: decayed(q, k, v, torch.tensor([0.1, 0.02])), inputs(150), grad=True, tolerance=2e-2),
    Case("no decay", lightning_attn2_no_decay, lambda q, k, v: decayed(q, k, v, torch.zeros(2)), inputs(130), grad=True,
         tolerance=2e-2),
]
