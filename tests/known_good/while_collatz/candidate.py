import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def collatz(x, y):
    p = tl.program_id(0)
    n = tl.load(x + p)
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(y + p, steps)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        collatz[(x.numel(),)](x, y)
        return y
