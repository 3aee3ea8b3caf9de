import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)
    x = tl.where(m, x, float('-inf'))
    y = tl.topk(x, 8)
    tl.store(y_ptr + row * 8 + tl.arange(0, 8), y)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], 8, device=x.device)
        kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
