import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gauss(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tl.exp(-v * v), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device=x.device, dtype=torch.float32)
        gauss[(triton.cdiv(x.numel(), 256),)](x.float(), y, x.numel(), BLOCK=256)
        return y.half(), y.to(torch.bfloat16)
