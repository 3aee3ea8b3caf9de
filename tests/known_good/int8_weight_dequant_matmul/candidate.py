import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def w8_matmul(x_ptr, w_ptr, s_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for left in range(K, 0, -BK):
        base = K - left
        x = tl.load(x_ptr + m[:, None] * K + base + k[None, :], mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + base + k[:, None], mask=(n[None, :] < N) & (k[:, None] < left), other=0)
        acc += tl.dot(x, w.to(tl.float32), input_precision="ieee")
    s = tl.load(s_ptr + n, mask=n < N, other=0.0)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc * s[None, :], mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (d_out, d_in), dtype=torch.int8))
        self.scales = nn.Parameter(torch.rand(d_out) * 0.05 + 0.01)

    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        w8_matmul[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, self.weight, self.scales, y, M, N, K, BM=16, BN=16, BK=32)
        return y
