import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sin_cos(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.sin(v) + tl.cos(v), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        kwargs = dict(x_ptr=x, y_ptr=y, n=n, BLOCK=128)
        if x.is_cuda:
            kernel = sin_cos.warmup(**kwargs, grid=(1,))
            kernel._init_handles()
            assert kernel.n_regs > 0 and kernel.metadata.num_warps == 4
        sin_cos[(triton.cdiv(n, 128),)](**kwargs)
        return y
