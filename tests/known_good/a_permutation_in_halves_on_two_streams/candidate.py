import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, order, out, first, last, B: tl.constexpr):
    i = first + tl.program_id(0) * B + tl.arange(0, B)
    v = tl.maximum(tl.load(x + i, mask=i < last), 0.0) * 2
    tl.store(out + tl.load(order + i, mask=i < last, other=0), v, mask=i < last)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream0 = torch.cuda.Stream()

    def forward(self, x, order):
        n, out = x.numel(), torch.empty_like(x)
        half, main = n // 2, torch.cuda.current_stream()
        self.stream0.wait_stream(main)
        with torch.cuda.stream(self.stream0):
            kernel[(triton.cdiv(half, 256),)](x, order, out, 0, half, B=256)
        kernel[(triton.cdiv(n - half, 256),)](x, order, out, half, n, B=256)
        main.wait_stream(self.stream0)
        return out
