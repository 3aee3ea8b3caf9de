import torch
import torch.nn as nn
import triton
import triton.language as tl


def build():
    """The class comes out of a factory; its kernels are made where they are used."""

    class CosPlusMean(nn.Module):
        def forward(self, x):
            @triton.jit
            def inner(x, y, n, BLOCK: tl.constexpr):
                r = tl.program_id(0)
                c = tl.arange(0, BLOCK)
                v = tl.load(x + r * n + c, mask=c < n, other=0.0)
                tl.store(y + r * n + c, tl.cos(v) + tl.sum(v, 0) / n, mask=c < n)

            y = torch.empty_like(x)
            inner[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
            return y

    return CosPlusMean


ModelNew = build()
