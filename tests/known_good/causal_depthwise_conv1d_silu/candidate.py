import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv(x, w, b, y, D, L, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    d = row % D
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.full([BLOCK], 0.0, tl.float32) + tl.load(b + d)
    for k in tl.static_range(K):
        j = i + k - (K - 1)
        acc += tl.load(x + row * L + j, mask=(j >= 0) & (j < L), other=0.0) * tl.load(w + d * K + k)
    tl.store(y + row * L + i, acc * tl.sigmoid(acc), mask=i < L)


class ModelNew(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.conv = nn.Conv1d(d, d, k, groups=d, padding=k - 1)

    def forward(self, x):
        B, D, L = x.shape
        y = torch.empty_like(x)
        conv[(triton.cdiv(L, 64), B * D)](x, self.conv.weight, self.conv.bias, y, D, L, K=self.conv.kernel_size[0], BLOCK=64)
        return y
