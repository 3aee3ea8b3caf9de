import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    # by exp(-2|x|), which cannot overflow
    e = tl.exp(-2.0 * tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    return tl.where(x >= 0, t, -t)


@triton.jit
def residual_layer(x, w, b, y, D, BLOCK_D: tl.constexpr):
    """One program a row and output column block; W is read whole."""
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK_D)
    acc = tl.load(b + o, mask=o < D, other=0.0)
    for k in range(0, D):
        acc += tl.load(x + row * D + k) * tl.load(w + o * D + k, mask=o < D, other=0.0)
    old = tl.load(x + row * D + o, mask=o < D, other=0.0)
    small = 1e-2
    t = tl.where(tl.abs(acc) < small, acc - acc * acc * acc / 3.0, tanh(acc))
    tl.store(y + row * D + o, old + t, mask=o < D)


class ModelNew(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])

    def forward(self, x):
        rows, d = x.shape
        for layer in self.layers:
            y = torch.empty_like(x)
            residual_layer[(rows,)](x, layer.weight, layer.bias, y, d, BLOCK_D=triton.next_power_of_2(d))
            x = y
        return x
