import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, num_stages=2, num_warps=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}, num_stages=3, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def fused(x, w, b, y, M, N, K, G, sub, mul, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        xv = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        wv = tl.load(w + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(xv, wv, acc, input_precision="ieee")
    z = (acc + tl.load(b + n, mask=n < N, other=0.0)[None, :] - sub) * mul
    # groups of four neighbours lie in one block, since its width is a multiple of four
    z = tl.reshape(z, (BLOCK_M, BLOCK_N // 4, 4))
    top = tl.max(z, axis=2)
    lse = top + tl.log(tl.sum(tl.exp(z - top[:, :, None]), axis=2))
    lse = tl.where(lse > 0, lse, 0.01 * lse)
    g = tl.program_id(1) * (BLOCK_N // 4) + tl.arange(0, BLOCK_N // 4)
    tl.store(y + m[:, None] * G + g[None, :], lse, mask=(m[:, None] < M) & (g[None, :] < G))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, subtract_value, multiply_value):
        super(ModelNew, self).__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract_value = subtract_value
        self.multiply_value = multiply_value

    def forward(self, x):
        M, K = x.shape
        N = self.linear.out_features
        G = N // 4
        y = torch.empty((M, G), device=x.device, dtype=x.dtype)
        grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
        fused[grid](x, self.linear.weight, self.linear.bias, y, M, N, K, G, self.subtract_value, self.multiply_value)
        return y
