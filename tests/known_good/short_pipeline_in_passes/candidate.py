"""A pipelined loop of fewer turns than its pipeline holds, entered again and again: each pass begins behind the one
before."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, P, K, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < N
    for k in range(K):
        tl.store(y_ptr + k * N + i, tl.load(x_ptr + k * N + i, mask=m), mask=m)
    for p in range(P):
        for k in tl.range(0, K, num_stages=4):
            v = tl.load(y_ptr + k * N + i, mask=m)
            tl.store(y_ptr + k * N + i, v * 0.5 + tl.load(x_ptr + k * N + i, mask=m), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.shape[1], 128),)](x, y, 4, x.shape[0], x.shape[1], BLOCK=128)
        return y
