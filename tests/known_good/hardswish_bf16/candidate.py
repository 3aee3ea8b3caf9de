import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def hardswish_kernel(src, dst, numel, BLOCK: tl.constexpr):
    idx = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    keep = idx < numel
    v = tl.load(src + idx, mask=keep, other=0).to(tl.float32)
    gate = tl.minimum(tl.maximum(v + 3.0, 0.0), 6.0) / 6.0
    tl.store(dst + idx, (v * gate).to(dst.dtype.element_ty), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        dst = torch.empty_like(x)
        numel = x.numel()
        if numel > 0:
            hardswish_kernel[(triton.cdiv(numel, 512),)](x, dst, numel, BLOCK=512)
        return dst
