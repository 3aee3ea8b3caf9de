import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_two(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    dx = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    dy = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    dy.store([m, n], dx.load([m, n]) + 2)


class ModelNew(nn.Module):
    def forward(self, x):
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device))
        y = torch.empty_like(x)
        M, N = x.shape
        add_two[(M // 16, N // 32)](x, y, M, N, BM=16, BN=32)
        return y
