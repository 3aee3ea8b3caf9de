import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def whole_tiles(x, y, M, N, PN, B: tl.constexpr):
    # the buffer is padded to whole tiles, so stores need no mask
    m = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    n = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    v = tl.load(x + m * N + n, mask=(m < M) & (n < N), other=0.0)
    tl.store(y + m * PN + n, v * 3 - 1)


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        pm, pn = triton.cdiv(M, 8) * 8, triton.cdiv(N, 8) * 8
        y = torch.empty((pm, pn), device=x.device, dtype=x.dtype)
        whole_tiles[(pm // 8, pn // 8)](x, y, M, N, pn, B=8)
        return y[:M, :N].T
