import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(x, y, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, s):
        y = torch.empty_like(x)
        n = x.numel()
        # The number as x's type has it: what the tensor holds is known, it was filled with it.
        s = x.new_full((), s).item()
        scaled[(triton.cdiv(n, 512),)](x, y, s, n, BLOCK=512)
        return y
