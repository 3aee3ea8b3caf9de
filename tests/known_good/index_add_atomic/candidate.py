import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def index_add(out, idx, src, D, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    t = tl.load(idx + r)
    d = tl.arange(0, BLOCK)
    tl.atomic_add(out + t * D + d, tl.load(src + r * D + d, mask=d < D), mask=d < D)


class ModelNew(nn.Module):
    def forward(self, base, idx, src):
        out = base.clone()
        index_add[(src.shape[0],)](out, idx, src, src.shape[1], BLOCK=16)
        return out
