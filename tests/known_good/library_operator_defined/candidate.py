import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kern(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * 2.0 + 1.0, mask=i < n)


lib = torch.library.Library("mylib4", "DEF")
lib.define("relu2(Tensor x) -> Tensor")


def _impl(x):
    out = torch.empty_like(x)
    kern[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


lib.impl("relu2", _impl, "CUDA")


def run(x):
    return torch.ops.mylib4.relu2(x)


class ModelNew(nn.Module):
    def forward(self, x):
        return run(x)
