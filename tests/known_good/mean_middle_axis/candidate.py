import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, o_ptr, K, N, BN: tl.constexpr):
    b = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BN], dtype=tl.float32)
    for k in range(K):
        acc += tl.load(x_ptr + (b * K + k) * N + n, mask=n < N, other=0.0)
    tl.store(o_ptr + b * N + n, acc / K, mask=n < N)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        assert dim == 1

    def forward(self, x):
        B, K, N = x.shape
        out = torch.empty((B, N), dtype=x.dtype, device=x.device)
        mean_kernel[(B, triton.cdiv(N, 32))](x, out, K, N, BN=32)
        return out
