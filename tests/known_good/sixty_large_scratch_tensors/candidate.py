"""A forward whose temporaries have 240 MB together, of which little is used."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        last, n = x, x.numel()
        for _ in range(60):
            scratch = torch.empty(max(n, 1 << 20), device=x.device)
            kernel[(triton.cdiv(n, 256),)](last, scratch, n, BLOCK=256)
            last = scratch
        return last[:n].view_as(x)
