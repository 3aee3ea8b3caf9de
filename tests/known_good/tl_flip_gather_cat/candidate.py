import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def three(x, index, flipped, picked, soft, N: tl.constexpr):
    p = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + p)
    tl.store(flipped + p, tl.flip(v, 0))
    tl.store(picked + p, tl.gather(v, tl.load(index + p), 0))
    tl.store(soft + p, tl.softmax(v))


class ModelNew(nn.Module):
    def forward(self, x, index):
        outs = [torch.empty_like(x) for _ in range(3)]
        three[(x.shape[0],)](x, index, *outs, N=32)
        return tuple(outs)
