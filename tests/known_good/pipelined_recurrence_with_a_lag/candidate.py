import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, K, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < N
    for k in range(0, 6):
        tl.store(y_ptr + k * N + i, tl.load(x_ptr + k * N + i, mask=m), mask=m)
    for k in tl.range(6, K, num_stages=3):
        v = tl.load(y_ptr + (k - 6) * N + i, mask=m)
        tl.store(y_ptr + k * N + i, v * 0.5 + tl.load(x_ptr + k * N + i, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.shape[1], 128),)](x, y, x.shape[0], x.shape[1], BLOCK=128)
        return y
