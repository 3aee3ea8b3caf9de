import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kern(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * 2.0 + 1.0, mask=i < n)


@torch.library.custom_op("mylib3::relu2p1_out", mutates_args={"out"})
def relu_out(x: torch.Tensor, out: torch.Tensor, block: int = 256) -> None:
    kern[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)


@relu_out.register_fake
def _(x, out, block=256):
    return None


def run(x):
    out = torch.empty_like(x)
    torch.ops.mylib3.relu2p1_out(x, out)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return run(x)
