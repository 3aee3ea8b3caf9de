import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def absmax_step(src, dst, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + tl.program_id(0), tl.max(tl.abs(tl.load(src + i, mask=i < n, other=0.0)), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        level = x.reshape(-1)
        while level.numel() > 1:
            n = level.numel()
            above = torch.empty(triton.cdiv(n, 64), device=x.device, dtype=x.dtype)
            absmax_step[(above.numel(),)](level, above, n, BLOCK=64)
            level = above
        return level[0]
