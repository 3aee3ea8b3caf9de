import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def xent(logits, target, loss, N, C, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(logits + r * C + c, mask=c < C, other=-float("inf"))
    m = tl.max(v, 0)
    lse = m + tl.log(tl.sum(tl.exp(v - m), 0))
    t = tl.load(target + r)
    tl.atomic_add(loss, (lse - tl.load(logits + r * C + t)) / N)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        N, C = logits.shape
        loss = torch.zeros((), device=logits.device, dtype=torch.float32)
        xent[(N,)](logits, target, loss, N, C, BLOCK=16)
        return loss
