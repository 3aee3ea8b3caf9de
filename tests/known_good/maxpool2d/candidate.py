import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def maxpool(x, y, H, W, HO, WO, K: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = p < HO * WO
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in tl.static_range(K):
        for j in tl.static_range(K):
            best = tl.maximum(best, tl.load(x + plane * H * W + ((p // WO) * S + i) * W + (p % WO) * S + j, mask=ok, other=float("-inf")))
    tl.store(y + plane * HO * WO + p, best, mask=ok)


class ModelNew(nn.Module):
    def __init__(self, k, s):
        super().__init__()
        self.k, self.s = k, s

    def forward(self, x):
        N, C, H, W = x.shape
        HO, WO = (H - self.k) // self.s + 1, (W - self.k) // self.s + 1
        y = torch.empty((N, C, HO, WO), device=x.device, dtype=x.dtype)
        maxpool[(N * C, triton.cdiv(HO * WO, 32))](x, y, H, W, HO, WO, K=self.k, S=self.s, BLOCK=32)
        return y
