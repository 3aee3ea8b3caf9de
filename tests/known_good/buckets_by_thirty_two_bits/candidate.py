import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m, other=0.0)
    r = (a * 10).to(tl.int32).to(tl.int64)
    tl.store(y + i, r, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
