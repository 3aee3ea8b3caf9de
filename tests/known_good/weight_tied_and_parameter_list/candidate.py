import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer(x, pre, w, b, post, y, D, RELU: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    ok = o < D
    acc = tl.load(b + o, mask=ok, other=0.0)
    for k in range(D):
        v = tl.load(x + r * D + k)
        if pre is not None:
            v *= tl.load(pre + k)
        acc += v * tl.load(w + o * D + k, mask=ok, other=0.0)
    if RELU:
        acc = tl.maximum(acc, 0.0)
    if post is not None:
        acc *= tl.load(post + o, mask=ok, other=0.0)
    tl.store(y + r * D + o, acc, mask=ok)


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up = nn.Linear(d, d)
        self.down = nn.Linear(d, d)
        self.down.weight = self.up.weight
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(d)) for _ in range(2)])

    def forward(self, x):
        rows, d = x.shape
        block = triton.next_power_of_2(d)
        h, y = torch.empty_like(x), torch.empty_like(x)
        layer[(rows,)](x, self.scales[0], self.up.weight, self.up.bias, None, h, d, RELU=True, BLOCK=block)
        layer[(rows,)](h, None, self.down.weight, self.down.bias, self.scales[1], y, d, RELU=False, BLOCK=block)
        return y
