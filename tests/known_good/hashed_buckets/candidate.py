import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(id_ptr, x_ptr, t_ptr, out_ptr, rows, d, v, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    m = j < d
    i = tl.load(id_ptr + row)
    h = ((i * 2654435761) ^ (i >> 7)) % v
    s = 1 - 2 * (((i * 40503) ^ (i >> 3)) & 1)
    m = m & (h >= 0) & (h < v)
    t = tl.load(t_ptr + h * d + j, mask=m, other=0.0)
    x = tl.load(x_ptr + row * d + j, mask=m, other=0.0)
    tl.store(out_ptr + row * d + j, t * x * s, mask=m)


class ModelNew(nn.Module):
    def __init__(self, v, d):
        super().__init__()
        self.table = nn.Parameter(torch.randn(v, d))

    def forward(self, ids, x):
        out = torch.empty_like(x)
        v = self.table.shape[0]
        kernel[(x.shape[0],)](ids, x, self.table, out, x.shape[0], x.shape[1], v, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
