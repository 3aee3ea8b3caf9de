import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, first, last, B: tl.constexpr):
    i = first + tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.maximum(tl.load(x + i, mask=i < last), 0.0) * 2, mask=i < last)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream0 = torch.cuda.Stream()

    def forward(self, x):
        n, out = x.numel(), torch.empty_like(x)
        half, main = n // 2, torch.cuda.current_stream()
        self.stream0.wait_stream(main)
        with torch.cuda.stream(self.stream0):
            kernel[(triton.cdiv(half, 256),)](x, out, 0, half, B=256)
        kernel[(triton.cdiv(n - half, 256),)](x, out, half, n, B=256)
        main.wait_stream(self.stream0)
        return out
