import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_exact(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, 0.5 * v * (1.0 + tl.math.erf(v * 0.7071067811865476)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.cuda.device(x.device) if x.is_cuda else torch.no_grad():
            y = torch.empty_like(x, memory_format=torch.contiguous_format)
            gelu_exact[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
