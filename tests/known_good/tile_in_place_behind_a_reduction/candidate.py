import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, C)[None, :]
    m = (r < rows) & (c < cols)
    p = y_ptr + r * cols + c
    tl.store(p, tl.load(x_ptr + r * cols + c, mask=m, other=0.0), mask=m)
    tl.debug_barrier()
    v = tl.load(p, mask=m, other=0.0)
    s = tl.sum(tl.abs(v), 1)
    tl.store(p, v / (1.0 + s[:, None]), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.shape[0], 16),)](x, y, x.shape[0], x.shape[1], R=16, C=triton.next_power_of_2(x.shape[1]))
        return y
