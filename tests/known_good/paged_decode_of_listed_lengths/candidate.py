"""One query a sequence over a cache in pages, of which the task lists how many places are used."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _paged(q, kc, vc, table, lens, o, scale, H, PAGE, MAXP, D: tl.constexpr, BP: tl.constexpr):
    b = tl.program_id(0)
    h = tl.program_id(1)
    d = tl.arange(0, D)
    n = tl.load(lens + b)
    qv = tl.load(q + (b * H + h) * D + d) * scale
    top = -1e38
    total = 0.0
    acc = tl.zeros((D,), tl.float32)
    for p in range(tl.cdiv(n, PAGE)):
        page = tl.load(table + b * MAXP + p)
        s = tl.arange(0, BP)
        keep = (s < PAGE) & (p * PAGE + s < n)
        at = ((page * PAGE + s) * H + h)[:, None] * D + d[None, :]
        k = tl.load(kc + at, mask=keep[:, None], other=0.0)
        qk = tl.where(keep, tl.sum(k * qv[None, :], 1), -1e38)
        new = tl.maximum(top, tl.max(qk, 0))
        w = tl.where(keep, tl.exp(qk - new), 0.0)
        f = tl.exp(top - new)
        total = total * f + tl.sum(w, 0)
        v = tl.load(vc + at, mask=keep[:, None], other=0.0)
        acc = acc * f + tl.sum(w[:, None] * v, 0)
        top = new
    tl.store(o + (b * H + h) * D + d, acc / total)


class ModelNew(nn.Module):
    def forward(self, q, kc, vc, table, lens):
        B, H, D = q.shape
        o = torch.empty_like(q)
        _paged[(B, H)](q, kc, vc, table, lens, o, D ** -0.5, H, kc.shape[1], table.shape[1], D=D,
                       BP=triton.next_power_of_2(kc.shape[1]))
        return o
