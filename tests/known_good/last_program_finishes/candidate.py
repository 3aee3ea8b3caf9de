import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_one_launch(x, parts, counter, out, n, blocks, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(parts + pid, tl.sum(v * v, axis=0))
    done = tl.atomic_add(counter, 1, sem="acq_rel")
    if done == blocks - 1:
        p = tl.arange(0, PARTS)
        tl.store(out, tl.sqrt(tl.sum(tl.load(parts + p, mask=p < blocks, other=0.0, volatile=True), axis=0)))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        blocks = triton.cdiv(n, 256)
        parts = torch.empty(blocks, device=x.device, dtype=torch.float32)
        counter = torch.zeros(1, device=x.device, dtype=torch.int32)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        norm_one_launch[(blocks,)](x, parts, counter, out, n, blocks, BLOCK=256, PARTS=triton.next_power_of_2(blocks))
        return out
