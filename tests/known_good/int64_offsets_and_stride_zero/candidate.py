import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, w, y, M, K, N, w0, w1, BM: tl.constexpr, BN: tl.constexpr):
    j = tl.program_id(0).to(tl.int64)
    m = tl.arange(0, BM).to(tl.int64)[:, None]
    n = tl.arange(0, BN).to(tl.int64)[None, :]
    ok = (m < M) & (n < N)
    p = tl.sum(tl.load(x + m * N + n, mask=ok, other=0.0) * tl.load(w + j * w0 + n * w1, mask=n < N, other=0.0), axis=1)
    r = tl.arange(0, BM)
    tl.store(y + r * K + j, tl.cumsum(p, 0), mask=r < M)


class ModelNew(nn.Module):
    def forward(self, x, w):
        (M, N), K = x.shape, w.shape[0]
        y = torch.empty(M, K, device=x.device, dtype=x.dtype)
        k[(K,)](x, w, y, M, K, N, w.stride(0), w.stride(1), BM=triton.next_power_of_2(M), BN=triton.next_power_of_2(N))
        return y
