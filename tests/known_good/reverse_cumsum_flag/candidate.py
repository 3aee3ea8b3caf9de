import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def suffix_sum(x, y, N, B: tl.constexpr):
    p = tl.program_id(0) * N + tl.arange(0, B)
    m = tl.arange(0, B) < N
    tl.store(y + p, tl.cumsum(tl.load(x + p, mask=m, other=0), axis=0, reverse=True), mask=m)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        assert dim in (1, -1)

    def forward(self, x):
        y = torch.empty_like(x)
        suffix_sum[(x.shape[0], 1, 1)](x, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return y
