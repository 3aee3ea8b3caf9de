import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def source_index(o, scale, size):
    f = tl.maximum((o.to(tl.float32) + 0.5) / scale - 0.5, 0.0)
    low = tl.floor(f).to(tl.int32)
    return low, tl.minimum(low + 1, size - 1), f - low


@triton.jit
def bilinear(x, y, H, W, OH, OW, scale, total, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < total
    h0, h1, fh = source_index(o // OW % OH, scale, H)
    w0, w1, fw = source_index(o % OW, scale, W)
    base = x + (o // (OH * OW)) * H * W
    a = tl.load(base + h0 * W + w0, mask=m, other=0.0)
    b = tl.load(base + h0 * W + w1, mask=m, other=0.0)
    c = tl.load(base + h1 * W + w0, mask=m, other=0.0)
    d = tl.load(base + h1 * W + w1, mask=m, other=0.0)
    top = a + (b - a) * fw
    low = c + (d - c) * fw
    tl.store(y + o, top + (low - top) * fh, mask=m)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        n, c, h, w = x.shape
        oh, ow = int(h * self.scale), int(w * self.scale)
        y = torch.empty((n, c, oh, ow), device=x.device, dtype=x.dtype)
        bilinear[(triton.cdiv(y.numel(), 128),)](x, y, h, w, oh, ow, float(self.scale), y.numel(), BLOCK=128)
        return y
