import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kern(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * 2.0 + 1.0, mask=i < n)


from torch.library import triton_op, wrap_triton


@triton_op("mylib::relu2p1", mutates_args={})
def run(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()

    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)

    wrap_triton(kern)[grid](x, out, n, BLOCK=256)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return run(x)
