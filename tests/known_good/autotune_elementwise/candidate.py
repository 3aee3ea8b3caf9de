import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=2),
        triton.Config({"BLOCK": 256}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=8, num_stages=2),
    ],
    key=["n"],
)
@triton.jit
def half_max(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.maximum(tl.load(x + i, mask=m), tl.load(y + i, mask=m)) * 0.5, mask=m)


class ModelNew(nn.Module):
    def forward(self, x, y):
        o = torch.empty_like(x)
        n = x.numel()
        half_max[lambda META: (triton.cdiv(n, META["BLOCK"]),)](x, y, o, n)
        return o
