import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x, w, b, y, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, RELU: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    k = tl.arange(0, K)
    acc = tl.dot(tl.load(x + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0),
                 tl.load(w + n[None, :] * K + k[:, None], mask=n[None, :] < N, other=0.0), input_precision="ieee")
    acc += tl.load(b + n, mask=n < N, other=0.0)[None, :]
    if RELU:
        acc = tl.maximum(acc, 0.0)
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))
        self.weights = [self.layers[0].weight, self.layers[2].weight]

    def forward(self, x):
        for i, layer in enumerate((self.layers[0], self.layers[2])):
            w = self.weights[i]
            y = torch.empty((x.shape[0], w.shape[0]), device=x.device, dtype=x.dtype)
            affine[(triton.cdiv(x.shape[0], 16),)](x, w, layer.bias, y, x.shape[0], w.shape[0], x.shape[1], BM=16, BN=16, RELU=i == 0)
            x = y
        return x
