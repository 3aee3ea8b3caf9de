import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    #  a form feed
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + j, mask=j < n, other=0.0)
    t = tl.maximum(x, 0.0) * 2.0
    # twice  as much
    tl.store(out_ptr + row * n + j, t, mask=j < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        m, n = x.shape
        kernel[(m,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
