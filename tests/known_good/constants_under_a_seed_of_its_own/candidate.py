import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kept_columns(x, at, y, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(y + row * n + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)
    tl.debug_barrier()
    column = tl.load(at + i, mask=i < COUNT, other=0)
    v = tl.load(x + row * n + column, mask=i < COUNT, other=0.0)
    tl.store(y + row * n + column, tl.maximum(v, 0.0), mask=i < COUNT)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        torch.manual_seed(5)
        self.register_buffer("keep", (torch.rand(n) > 0.5).float())
        self.register_buffer("at", self.keep.nonzero()[:, 0].to(torch.int32), persistent=False)
        self.count = self.at.numel()

    def forward(self, x):
        y = torch.empty_like(x)
        kept_columns[(x.shape[0],)](x, self.at, y, x.shape[1], COUNT=self.count,
                                    BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
