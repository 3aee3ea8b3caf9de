import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_max(x, y, N, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(y + r, tl.max(tl.load(x + r * N + i, mask=i < N, other=float("-inf")), 0))


@triton.jit
def row_min(x, y, N, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(y + r, tl.min(tl.load(x + r * N + i, mask=i < N, other=float("inf")), 0))


@triton.jit
def row_mean(x, y, N, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(y + r, tl.sum(tl.load(x + r * N + i, mask=i < N, other=0.0), 0) / N)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def forward(self, x):
        M, N = x.shape
        B = triton.next_power_of_2(N)
        outs = [torch.empty(M, device=x.device, dtype=x.dtype) for _ in range(3)]
        here = torch.cuda.current_stream()
        for stream, kernel, out in zip(self.streams, (row_max, row_min), outs):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                kernel[(M,)](x, out, N, B=B, num_warps=2)
        row_mean[(M,)](x, outs[2], N, B=B, num_warps=8)
        for stream in self.streams:
            here.wait_stream(stream)
        return tuple(outs)
