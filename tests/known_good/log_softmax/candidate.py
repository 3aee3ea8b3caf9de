import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x, y, n: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * n + c, mask=c < n, other=-1e30)
    v -= tl.max(v, axis=0, keep_dims=True)
    tl.store(y + r * n + c, v - tl.log(tl.sum(tl.exp(v), axis=0, keep_dims=True)), mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        log_softmax_kernel[(x.size(0),)](x, y, x.size(1), 64)
        return y
