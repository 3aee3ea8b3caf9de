import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shuffle_half(x, y, C, H, W, R: tl.constexpr, total, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ow = o % (W * R)
    oh = o // (W * R) % (H * R)
    c = o // (W * R * H * R) % C
    n = o // (W * R * H * R * C)
    src = ((n * C * R * R + c * R * R + (oh % R) * R + ow % R) * H + oh // R) * W + ow // R
    tl.store(y + o, tl.load(x + src, mask=o < total) * 0.5, mask=o < total)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.r = factor

    def forward(self, x):
        n, crr, h, w = x.shape
        c = crr // (self.r * self.r)
        y = torch.empty((n, c, h * self.r, w * self.r), device=x.device, dtype=x.dtype)
        shuffle_half[(triton.cdiv(y.numel(), 256),)](x, y, c, h, w, self.r, y.numel(), BLOCK=256)
        return y
