import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice_and_one(a):
    return tl.inline_asm_elementwise("fma.rn.f32 $0, $1, 2.0, 1.0;", "=f,f", [a], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    tl.store(y + r * n + i, twice_and_one(tl.maximum(v, 0.0)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
