import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, first, last, behind, IS_FIRST: tl.constexpr, B: tl.constexpr):
    if IS_FIRST:
        tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
    i = first + tl.program_id(0) * B + tl.arange(0, B)
    v = tl.maximum(tl.load(x + i, mask=i < last, other=0.0), 0.0) * 2
    tl.store(out + i, v, mask=i < behind)
    if not IS_FIRST:
        tl.extra.cuda.gdc_wait()  # who waits for this launch knows then that the first half is there


class ModelNew(nn.Module):
    def forward(self, x):
        n, out = x.numel(), torch.empty_like(x)
        half, grid = n // 2, (triton.cdiv(n, 512) + 1,)
        kernel[grid](x, out, 0, half, half, IS_FIRST=True, B=256, launch_pdl=True)
        kernel[grid](x, out, half, n, n, IS_FIRST=False, B=256, launch_pdl=True)
        return out
