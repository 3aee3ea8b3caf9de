import math

import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def blur(x, taps, y, L, OL, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for t in tl.static_range(TAPS):
        acc += tl.load(taps + t) * tl.load(x + row * L + o + t, mask=o < OL, other=0.0)
    tl.store(y + row * OL + o, acc, mask=o < OL)


class ModelNew(nn.Module):
    def __init__(self, taps, sigma):
        super().__init__()
        at = np.arange(taps, dtype=np.float64) - (taps - 1) / 2
        w = np.exp(-0.5 * np.square(at / sigma))
        self.register_buffer("window", torch.from_numpy((w / w.sum()).astype(np.float32)))
        assert math.isclose(float(w[0]), float(w[-1]))

    def forward(self, x):
        rows, length = x.shape
        taps = self.window.shape[0]
        out_length = length - taps + 1
        y = torch.empty((rows, out_length), device=x.device, dtype=x.dtype)
        blur[(triton.cdiv(out_length, 32), rows)](x, self.window, y, length, out_length, TAPS=taps, BLOCK=32)
        return y
