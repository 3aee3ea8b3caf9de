import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_max(values, group, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    g = tl.load(group + i, mask=m, other=0)
    v = tl.load(values + i, mask=m, other=-2147483648)
    tl.atomic_max(out + g, v, mask=m)


class ModelNew(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, values, group):
        out = values.new_full((self.groups,), torch.iinfo(torch.int32).min)
        group_max[(triton.cdiv(values.numel(), 64),)](values, group, out, values.numel(), BLOCK=64)
        return out
