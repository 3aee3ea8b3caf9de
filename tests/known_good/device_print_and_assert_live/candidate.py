import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit(debug=True)
def square_plus(x, y, n, BLOCK: tl.constexpr):
    tl.static_print("BLOCK is", BLOCK)
    tl.device_assert(n > 0, "nothing to do")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if tl.program_id(0) == 1000:
        tl.device_print("value", v)
    tl.store(y + i, v * v + v, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        square_plus[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
        torch.cuda.synchronize()
        return y
