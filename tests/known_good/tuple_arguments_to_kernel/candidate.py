import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def weighted_sum(sources, weights, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for s in tl.static_range(len(sources)):
        total += weights[s] * tl.load(sources[s] + i, mask=i < n, other=0.0)
    tl.store(out + i, total, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        out = torch.empty_like(a)
        weighted_sum[(triton.cdiv(a.numel(), 256),)]((a, b, c), (0.5, 0.25, -2.0), out, a.numel(), BLOCK=256)
        return out
