import torch
import triton
import triton.language as tl


class Kernels:
    @staticmethod
    @triton.jit
    def spread(a, b, o, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x, y = tl.load(a + i, mask=i < n), tl.load(b + i, mask=i < n)
        tl.store(o + i, tl.maximum(x, y) - tl.minimum(x, y), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        o = torch.empty(x.shape, device="cuda", dtype=torch.float32)
        Kernels.spread[(triton.cdiv(N := x.numel(), 64), 1)](x, y, o, N, BLOCK=64, num_ctas=1)
        return o
