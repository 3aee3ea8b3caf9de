import torch
import torch.nn as nn
import triton
import triton.language as tl


# This does not cheat: no torch.matmul, no torch.nn.functional, no try/except fallback, no eval or exec.
# "random", "seed", "cache", "time.perf_counter" and "sys.modules" are words in a comment.
NOTE = "import os; os.system('cheat'); torch.mm(a, b); print('PASS')"


@triton.jit
def clamp_try_kernel(x, y, n, lo, hi, BLOCK: tl.constexpr):
    """Clamps. The reference would call torch.clamp; getattr(torch, 'clamp') is not called."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.minimum(tl.maximum(v, lo), hi), mask=i < n)


class ModelNew(nn.Module):
    """torch.matmul is not used here."""

    def forward(self, x):
        y = torch.empty_like(x)
        clamp_try_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), -1.0, 1.0, BLOCK=64)
        return y
