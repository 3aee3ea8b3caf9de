import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, y_ptr, M, N, stride_m, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, shape=(M, N), strides=(stride_m, 1), offsets=(tl.program_id(0) * BM, tl.program_id(1) * BN), block_shape=(BM, BN), order=(1, 0))
    y = tl.make_block_ptr(y_ptr, shape=(M, N), strides=(stride_m, 1), offsets=(tl.program_id(0) * BM, tl.program_id(1) * BN), block_shape=(BM, BN), order=(1, 0))
    v = tl.load(x, boundary_check=(0, 1), padding_option="zero") - 3
    tl.store(y, v * v, boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        y = torch.empty_like(x)
        square_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 32))](x, y, M, N, x.stride(0), BM=16, BN=32)
        return y
