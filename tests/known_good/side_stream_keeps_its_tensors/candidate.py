import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, sign, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n) * sign, 0.0), mask=i < n)


@triton.jit
def affine_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2 + 1, mask=i < n)


def chain(x, out, sign):
    hidden = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, 512),)
    relu_kernel[grid](x, hidden, n, sign, BLOCK=512)
    affine_kernel[grid](hidden, out, n, BLOCK=512)
    return hidden


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        up, down = torch.empty_like(x), torch.empty_like(x)
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            down.record_stream(self.side)
            chain(x, down, -1.0)
        chain(x, up, 1.0)
        here.wait_stream(self.side)
        return up, down
