import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows(d, m, o, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(o + r * N + c, tl.load(d + r) * tl.load(m + r * N + c, mask=c < N), mask=c < N)


class ModelNew(nn.Module):
    def forward(self, d, m):
        o = torch.empty_like(m)
        scale_rows[(m.shape[0],)](d, m, o, m.shape[1], BLOCK=64)
        return o
