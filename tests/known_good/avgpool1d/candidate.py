import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def avgpool(x, y, L, LO, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)[:, None]
    k = tl.arange(0, K)[None, :]
    v = tl.load(x + row * L + o * K + k, mask=o < LO, other=0.0)
    i = tl.arange(0, BLOCK)
    tl.store(y + row * LO + i, tl.sum(v, axis=1) / K, mask=i < LO)


class ModelNew(nn.Module):
    def forward(self, x):
        N, C, L = x.shape
        LO = L // 4
        y = torch.empty((N, C, LO), device=x.device)
        avgpool[(N * C,)](x, y, L, LO, K=4, BLOCK=16)
        return y
