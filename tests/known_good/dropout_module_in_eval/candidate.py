import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def positive_part(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.where(x > 0, x, 0.0), mask=i < n)


@triton.jit
def gated(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    gate = tl.load(gate_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x * gate, mask=i < n)


class ModelNew(nn.Module):
    """The dropout stays torch's module, which hands its input on in eval mode."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x, gate):
        n = x.numel()
        grid = (triton.cdiv(n, 512),)
        hidden, out = torch.empty_like(x), torch.empty_like(x)
        positive_part[grid](x, hidden, n, BLOCK=512)
        gated[grid](self.drop(hidden), gate, out, n, BLOCK=512)
        return out
