import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, first, n, B: tl.constexpr):
    i = first + 2 * (tl.program_id(0) * B + tl.arange(0, B))
    tl.store(out + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream0 = torch.cuda.Stream()

    def forward(self, x):
        n, out = x.numel(), torch.empty_like(x)
        main, grid = torch.cuda.current_stream(), (triton.cdiv(n, 512),)
        self.stream0.wait_stream(main)
        with torch.cuda.stream(self.stream0):
            kernel[grid](x, out, 0, n, B=256)
        kernel[grid](x, out, 1, n, B=256)
        main.wait_stream(self.stream0)
        return out
