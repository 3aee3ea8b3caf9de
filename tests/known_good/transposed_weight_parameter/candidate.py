import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def addmm_relu6(bias, x, w, y, M, N, K, swk, swn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    m = pm * BM + tl.arange(0, BM)
    n = pn * BN + tl.arange(0, BN)
    # bias first, so that the products are added to it as addmm says
    acc = tl.zeros((BM, BN), dtype=tl.float32) + tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        xv = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        wv = tl.load(w + k[:, None] * swk + n[None, :] * swn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(xv, wv, acc, input_precision="ieee")
    tl.store(y + m[:, None] * N + n[None, :], tl.clamp(acc, 0.0, 6.0), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_in, d_out))
        nn.init.xavier_uniform_(self.weight)
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_out)))

    def forward(self, x):
        # the transposed copy is contiguous in K
        wt = self.weight.t().contiguous()
        M, K = x.shape
        N = wt.shape[0]
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 32))
        addmm_relu6[grid](self.bias, x, wt, y, M, N, K, wt.stride(1), wt.stride(0), BM=16, BN=32, BK=16)
        return y
