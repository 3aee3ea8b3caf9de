import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bytes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, (x * 255).to(tl.uint8), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.uint8, device=x.device)
        n = x.numel()
        bytes_kernel[(triton.cdiv(n, 512),)](x, out, n, BLOCK=512)
        return out
