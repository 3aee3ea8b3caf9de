import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def swish(x_ptr, o_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = x * tl.sigmoid(x)
    tl.store(o_ptr + offsets, y.to(tl.float16), mask=mask)


def swish_triton(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = out.numel()
    swish[(triton.cdiv(n, 1024), 1, 1)](x, out, n, BLOCK_SIZE=1024, num_warps=8)
    return out


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return swish_triton(x.contiguous())
