import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chained_scan(x, y, sums, flags, n, BLOCK: tl.constexpr):
    """Each program waits for the running total of the one before it."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    own = tl.sum(v, axis=0)
    before = 0.0
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
        before = tl.load(sums + pid - 1, volatile=True)
    tl.store(sums + pid, before + own)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1)
    tl.store(y + i, tl.cumsum(v, axis=0) + before, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        blocks = triton.cdiv(n, 128)
        y = torch.empty_like(x)
        sums = torch.empty(blocks, dtype=torch.float32, device=x.device)
        flags = torch.zeros(blocks, dtype=torch.int32, device=x.device)
        chained_scan[(blocks,)](x, y, sums, flags, n, BLOCK=128)
        return y
