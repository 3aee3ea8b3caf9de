import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, p, c, y, n, g, BLOCK: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    s = tl.sum(v * v)
    tl.atomic_xchg(p + pid, s)
    tl.debug_barrier()
    t = tl.atomic_add(c, 1)
    if t == g - 1:
        j = tl.arange(0, G)
        tl.store(y, tl.sum(tl.load(p + j, mask=j < g, other=0.0)))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        g = triton.cdiv(n, 1024)
        p = torch.empty(g, device=x.device)
        c = torch.zeros(1, dtype=torch.int32, device=x.device)
        y = torch.empty((), device=x.device)
        kernel[(g,)](x, p, c, y, n, g, BLOCK=1024, G=triton.next_power_of_2(g), num_warps=4)
        return y
