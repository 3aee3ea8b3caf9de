import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def alibi_probs(q, k, slopes, p, T, D, scale, BT: tl.constexpr, BD: tl.constexpr):
    h, i = tl.program_id(1), tl.program_id(0)
    j = tl.arange(0, BT)
    d = tl.arange(0, BD)
    qv = tl.load(q + (h * T + i) * D + d, mask=d < D, other=0.0)
    kv = tl.load(k + (h * T + j[:, None]) * D + d[None, :], mask=(j[:, None] < T) & (d[None, :] < D), other=0.0)
    s = tl.sum(kv * qv[None, :], axis=1) * scale - tl.load(slopes + h) * tl.abs(i - j).to(tl.float32)
    s = tl.where(j < T, s, float("-inf"))
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(p + (h * T + i) * T + j, e / tl.sum(e, axis=0), mask=j < T)


@triton.jit
def weigh(p, v, o, T, D, BT: tl.constexpr, BD: tl.constexpr):
    h, i = tl.program_id(1), tl.program_id(0)
    j = tl.arange(0, BT)
    d = tl.arange(0, BD)
    w = tl.load(p + (h * T + i) * T + j, mask=j < T, other=0.0)
    vv = tl.load(v + (h * T + j[:, None]) * D + d[None, :], mask=(j[:, None] < T) & (d[None, :] < D), other=0.0)
    tl.store(o + (h * T + i) * D + d, tl.sum(vv * w[:, None], axis=0), mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", torch.tensor([2.0 ** (-(h + 1)) for h in range(heads)]))

    def forward(self, q, k, v):
        h, t, d = q.shape
        p = torch.empty((h, t, t), device=q.device, dtype=q.dtype)
        o = torch.empty_like(v)
        meta = dict(BT=triton.next_power_of_2(t), BD=triton.next_power_of_2(d))
        alibi_probs[(t, h)](q, k, self.slopes, p, t, d, d ** -0.5, **meta)
        weigh[(t, h)](p, v, o, t, d, **meta)
        return o
