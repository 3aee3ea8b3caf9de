import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def asm_kernel(x_ptr, y_ptr, larger_ptr, slope_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    y = tl.load(y_ptr + i, mask=mask, other=0.0)
    larger = tl.inline_asm_elementwise("max.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2)
    slope = tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.gt.f32 p, $1, 0f00000000; @p mov.f32 $0, $1; @!p add.f32 $0, $1, $1; }", "=f,f", [x.to(tl.float32)],
        dtype=tl.float32, is_pure=True, pack=1)
    tl.store(larger_ptr + i, larger, mask=mask)
    tl.store(slope_ptr + i, slope, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        n = x.numel()
        larger = torch.empty_like(x)
        slope = torch.empty(n, device=x.device)
        asm_kernel[(triton.cdiv(n, 256),)](x, y, larger, slope, n, BLOCK=256)
        return larger, slope
