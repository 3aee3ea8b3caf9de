import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def one_hot(x, y, C, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(y + r * C + c, (c == tl.load(x + r)).to(tl.int64), mask=c < C)


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, x):
        y = torch.empty((x.shape[0], self.classes), dtype=torch.int64, device=x.device)
        one_hot[(x.shape[0],)](x, y, self.classes, BLOCK=16)
        return y
