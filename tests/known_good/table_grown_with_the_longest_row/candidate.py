import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, cols, t_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)
    y = x * tl.load(t_ptr + i, mask=m, other=0.0)
    tl.store(y_ptr + row * cols + i, y, mask=m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = None

    def table(self, x):
        n = x.shape[1]
        if self.known is None or self.known.shape[0] < n:
            self.known = torch.cos(torch.arange(n, device=x.device).float())
        return self.known

    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(x.shape[0],)](x, y, x.shape[1], self.table(x), BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
