import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def queue_worker(x, y, queue, n, tiles, BLOCK: tl.constexpr):
    """Programs take tiles from a shared counter until none is left."""
    tile = tl.atomic_add(queue, 1)
    while tile < tiles:
        i = tile * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, libdevice.atan(v) * v, mask=i < n)
        tile = tl.atomic_add(queue, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        queue = torch.zeros((1,), dtype=torch.int32, device=x.device)
        n = x.numel()
        tiles = triton.cdiv(n, 128)
        queue_worker[(min(4, tiles),)](x, y, queue, n, tiles, BLOCK=128)
        return y
