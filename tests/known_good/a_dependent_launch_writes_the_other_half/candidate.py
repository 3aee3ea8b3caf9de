import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, first, last, behind, WAITS: tl.constexpr, B: tl.constexpr):
    tl.extra.cuda.gdc_launch_dependents()
    if WAITS:
        tl.extra.cuda.gdc_wait()
    i = first + tl.program_id(0) * B + tl.arange(0, B)
    v = tl.maximum(tl.load(x + i, mask=i < last, other=0.0), 0.0) * 2
    tl.store(out + i, v, mask=i < behind)


class ModelNew(nn.Module):
    def forward(self, x):
        n, out = x.numel(), torch.empty_like(x)
        half, grid = n // 2, (triton.cdiv(n, 512) + 1,)
        kernel[grid](x, out, 0, half, half, WAITS=True, B=256, launch_pdl=True)
        kernel[grid](x, out, half, n, n, WAITS=False, B=256, launch_pdl=True)
        return out
