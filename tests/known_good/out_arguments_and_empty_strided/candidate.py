import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def times_column_sum(x, y, M, N, s0, s1, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.arange(0, BM)[:, None]
    c = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    m = (r < M) & (c < N)
    v = tl.load(x + r * N + c, mask=m, other=0.0)
    tl.store(y + r * s0 + c * s1, v * tl.sum(v, axis=0, keep_dims=True), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        # (N, M), rows padded to multiples of four
        padded = torch.empty_strided((N, M), (-(-M // 4) * 4, 1), dtype=x.dtype, device=x.device)
        times_column_sum[(triton.cdiv(N, 8),)](x, padded, M, N, padded.stride(1), padded.stride(0), BM=triton.next_power_of_2(M), BN=8)
        out = torch.empty((N, M), dtype=x.dtype, device=x.device)
        out.copy_(padded)
        return out
