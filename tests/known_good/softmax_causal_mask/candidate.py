import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def causal_softmax(s, o, T, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    q = row % T
    k = tl.arange(0, BLOCK)
    v = tl.load(s + row * T + k, mask=k <= q, other=-float("inf"))
    e = tl.where(k <= q, tl.exp(v - tl.max(v, 0)), 0.0)
    tl.store(o + row * T + k, e / tl.sum(e, 0), mask=k < T)


class ModelNew(nn.Module):
    def forward(self, scores):
        o = torch.empty_like(scores)
        T = scores.shape[-1]
        causal_softmax[(scores.numel() // T,)](scores, o, T, BLOCK=triton.next_power_of_2(T))
        return o
