import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)


@triton.jit
def sum_kernel(x, out, rows, cols, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for row in range(rows):
        total += tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    tl.store(out + i, total, mask=i < cols)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream0 = torch.cuda.Stream()

    def forward(self, x):
        rows, cols = x.shape
        held, out = torch.empty_like(x), torch.empty(cols, device=x.device)
        main, half = torch.cuda.current_stream(), rows // 2
        self.stream0.wait_stream(main)
        with torch.cuda.stream(self.stream0):
            n = half * cols
            kernel[(triton.cdiv(n, 256),)](x[:half], held[:half], n, B=256)
        n = (rows - half) * cols
        kernel[(triton.cdiv(n, 256),)](x[half:], held[half:], n, B=256)
        main.wait_stream(self.stream0)
        sum_kernel[(triton.cdiv(cols, 128),)](held, out, rows, cols, B=128)
        return out
