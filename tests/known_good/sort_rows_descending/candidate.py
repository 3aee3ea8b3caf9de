import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=float("-inf"))
    tl.store(y + r * n + i, tl.sort(v, descending=True), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        rows = x.numel() // n
        sort_kernel[(rows,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
