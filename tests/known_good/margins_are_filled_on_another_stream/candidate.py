import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream0 = torch.cuda.Stream()

    def forward(self, x):
        rows, cols = x.shape
        n, out = x.numel(), torch.empty(rows + 6, cols, device=x.device)
        main = torch.cuda.current_stream()
        self.stream0.wait_stream(main)
        with torch.cuda.stream(self.stream0):
            out[:3].zero_()
            out[-3:].zero_()
        kernel[(triton.cdiv(n, 256),)](x, out[3:-3], n, B=256)
        main.wait_stream(self.stream0)
        return out
