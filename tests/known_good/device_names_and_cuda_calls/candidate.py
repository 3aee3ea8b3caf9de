import torch
import torch.nn as nn
import triton
import triton.language as tl

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@triton.jit
def accumulate(x, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0), sem="relaxed", scope="gpu")


@triton.jit
def add_total(x, total, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(total) + tl.load(x + i, mask=i < n) * 0.5, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.to(DEVICE)

    def forward(self, x):
        x = x.cuda().to(DEVICE)
        total = torch.zeros(1).to("cuda:0")
        y = torch.empty(x.shape, device=DEVICE)
        n = len(x)
        blocks = triton.cdiv(n, 128)
        accumulate[(blocks,)](x, total, n, 128)
        add_total[(blocks,)](x, total, y, n, 128)
        torch.cuda.synchronize(DEVICE)
        return y
