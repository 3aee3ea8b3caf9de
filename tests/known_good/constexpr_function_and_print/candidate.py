import logging
import os

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice

log = logging.getLogger(__name__)
DEBUG = os.environ.get("MY_KERNEL_DEBUG", "0") == "1"


@triton.constexpr_function
def padded(n):
    p = 1
    while p < n:
        p *= 2
    return p


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def rows_min_max_prod(x, lo, hi, prod, N: tl.constexpr, DEBUG: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, padded(N))
    ok = c < N
    p = x + r * N + c
    if DEBUG:
        tl.device_print("row", r)
        tl.device_assert(N > 0, "empty rows")
    tl.store(lo + r, tl.min(tl.load(p, ok, float("inf")), 0))
    tl.store(hi + r, tl.max(tl.load(p, ok, -float("inf")), 0))
    tl.store(prod + r, tl.reduce(tl.where(ok, libdevice.tanh(tl.load(p, ok, 0.0)), 1.0), 0, multiply))


class ModelNew(nn.Module):
    def forward(self, x):
        log.debug("shape %s", tuple(x.shape))
        outs = torch.empty((3, x.shape[0]), device=x.device, dtype=x.dtype).unbind(0)
        rows_min_max_prod[(x.shape[0],)](x, *outs, N=x.shape[1], DEBUG=DEBUG)
        return outs
