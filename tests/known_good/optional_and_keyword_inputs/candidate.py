import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x_ptr, bias_ptr, y_ptr, N, scale, HAS_BIAS: tl.constexpr, NEGATE: tl.constexpr, REDUCE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    y = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0) * scale
    if HAS_BIAS:
        y += tl.load(bias_ptr + c, mask=c < N, other=0.0)
    y = -y if NEGATE else y
    if REDUCE:
        tl.store(y_ptr + row, tl.sum(y, axis=0))
    else:
        tl.store(y_ptr + row * N + c, y, mask=c < N)


class ModelNew(nn.Module):
    def forward(self, x, bias=None, negate=False, scale=1.0, mode="sum"):
        reduce = mode == "sum"
        rows, n = x.shape
        y = torch.empty((rows,) if reduce else (rows, n), device=x.device, dtype=x.dtype)
        scaled_sum[(rows,)](x, bias, y, n, scale, HAS_BIAS=bias is not None, NEGATE=negate, REDUCE=reduce, BLOCK=triton.next_power_of_2(n))
        return y
