import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise(x, w, y, C, H, W, K: tl.constexpr, BW: tl.constexpr):
    nc = tl.program_id(0)
    h = tl.program_id(1)
    c = nc % C
    col = tl.arange(0, BW)
    acc = tl.zeros((BW,), tl.float32)
    for i in tl.static_range(K):
        for j in tl.static_range(K):
            r = h + i - K // 2
            q = col + j - K // 2
            v = tl.load(x + (nc * H + r) * W + q, mask=(r >= 0) & (r < H) & (q >= 0) & (q < W), other=0.0)
            acc += v * tl.load(w + (c * K + i) * K + j)
    tl.store(y + (nc * H + h) * W + col, acc, mask=col < W)


class ModelNew(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.dw = nn.Conv2d(c, c, k, groups=c, padding=k // 2, bias=False)
        self.k = k

    def forward(self, x):
        N, C, H, W = x.shape
        y = torch.empty_like(x)
        depthwise[(N * C, H)](x, self.dw.weight, y, C, H, W, K=self.k, BW=triton.next_power_of_2(W))
        return y
