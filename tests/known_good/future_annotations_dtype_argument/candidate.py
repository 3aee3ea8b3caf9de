from __future__ import annotations

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language import arange, load, program_id, store

TL_TYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


@triton.jit(do_not_specialize=["n"])
def below_max(x: tl.pointer_type, y, n: tl.int32, OUT: tl.constexpr, BLOCK: tl.constexpr = 64, FILL: tl.constexpr = float("-inf")):
    r = program_id(0)
    i = arange(0, BLOCK)
    v = load(x + r * n + i, mask=i < n, other=FILL).to(tl.float32)
    store(y + r * n + i, tl.cast(v - tl.max(v, 0), OUT), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match x.shape:
            case (rows, n):
                pass
            case _:
                raise ValueError(f"expected two dimensions, found {x.dim()}: {', '.join(f'{s}' for s in x.shape)}")
        y = torch.empty_like(x)
        if (block := triton.next_power_of_2(n)) <= 64:
            below_max[(rows,)](x, y, n, TL_TYPES[x.dtype])
        else:
            below_max[(rows,)](x, y, n, OUT=TL_TYPES[x.dtype], BLOCK=block)
        return y
