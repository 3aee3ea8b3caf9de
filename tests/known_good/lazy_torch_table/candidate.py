import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x, t, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(t + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        n = x.numel()
        if self.table is None or self.table.numel() != n:
            self.table = torch.cos(torch.arange(n, device=x.device, dtype=torch.float32))
        y = torch.empty_like(x)
        scale[(triton.cdiv(n, 64),)](x, self.table, y, n, BLOCK=64)
        return y
