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
        self.stream1 = torch.cuda.Stream()
        self.stream2 = torch.cuda.Stream()

    def forward(self, x):
        n, out = x.numel(), torch.empty_like(x)
        main, sides = torch.cuda.current_stream(), [self.stream0, self.stream1, self.stream2]
        for k, side in enumerate(sides):
            first, last = k * n // 3, (k + 1) * n // 3
            side.wait_stream(main)
            with torch.cuda.stream(side):
                kernel[(triton.cdiv(last - first, 256),)](x, out, first, last, B=256)
        for side in sides:
            main.wait_stream(side)
        return out
