import warnings

import torch
import torch.nn as nn
import triton
import triton.language as tl

warnings.filterwarnings("ignore")


@triton.jit
def hardtanh_kernel(x, y, n, lo, hi, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.minimum(hi, tl.maximum(lo, v)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        try:
            hardtanh_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), -0.5, 0.5, BLOCK=128)
        except RuntimeError as e:
            raise RuntimeError(f"hardtanh on {tuple(x.shape)} failed") from e
        return y
