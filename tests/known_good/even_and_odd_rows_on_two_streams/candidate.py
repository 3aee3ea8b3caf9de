import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, first, step, rows, cols, B: tl.constexpr):
    row = first + tl.program_id(0) * step
    i = tl.arange(0, B)
    keep = (i < cols) & (row < rows)
    v = tl.load(x + row * cols + i, mask=keep)
    tl.store(out + row * cols + i, tl.maximum(v, 0.0) * 2, mask=keep)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream0 = torch.cuda.Stream()

    def forward(self, x):
        rows, cols = x.shape
        out, main = torch.empty_like(x), torch.cuda.current_stream()
        block = triton.next_power_of_2(cols)
        self.stream0.wait_stream(main)
        with torch.cuda.stream(self.stream0):
            kernel[(triton.cdiv(rows, 2),)](x, out, 0, 2, rows, cols, B=block)
        kernel[(triton.cdiv(rows, 2),)](x, out, 1, 2, rows, cols, B=block)
        main.wait_stream(self.stream0)
        return out
