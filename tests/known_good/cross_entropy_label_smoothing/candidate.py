import torch
import torch.nn as nn
import triton
import triton.language as tl

IGNORE = tl.constexpr(-100)


@triton.jit
def smoothed_rows(logits, target, loss, live, C, smoothing, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    t = tl.load(target + r)
    c = tl.arange(0, BLOCK)
    x = tl.load(logits + r * C + c, mask=c < C, other=float("-inf"))
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    if t == IGNORE:
        tl.store(loss + r, 0.0)
        tl.store(live + r, 0.0)
    else:
        picked = tl.load(logits + r * C + t)
        mean = tl.sum(tl.where(c < C, x, 0.0), 0) / C
        tl.store(loss + r, lse - (1.0 - smoothing) * picked - smoothing * mean)
        tl.store(live + r, 1.0)


@triton.jit
def ratio_of_sums(a, b, out, n, BLOCK: tl.constexpr):
    top = tl.zeros((BLOCK,), tl.float32)
    low = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        top += tl.load(a + i, mask=i < n, other=0.0)
        low += tl.load(b + i, mask=i < n, other=0.0)
    tl.store(out, tl.sum(top) / tl.sum(low))


class ModelNew(nn.Module):
    def __init__(self, smoothing):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, target):
        n, c = logits.shape
        rows = torch.empty((2, n), device=logits.device, dtype=torch.float32)
        out = torch.empty((), device=logits.device, dtype=logits.dtype)
        smoothed_rows[(n,)](logits, target, rows[0], rows[1], c, self.smoothing, BLOCK=triton.next_power_of_2(c))
        ratio_of_sums[(1,)](rows[0], rows[1], out, n, BLOCK=32)
        return out
