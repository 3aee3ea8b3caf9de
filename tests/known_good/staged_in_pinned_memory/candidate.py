import torch
import torch.nn as nn
import triton
import triton.language as tl

SUPPORTED = {"low", "high", "scale", "shift"}


@triton.jit
def affine_kernel(x_ptr, c_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    x = tl.minimum(tl.maximum(x, tl.load(c_ptr)), tl.load(c_ptr + 1))
    tl.store(out_ptr + i, x * tl.load(c_ptr + 2) + tl.load(c_ptr + 3), mask=i < n)


class ModelNew(nn.Module):
    """The coefficients go to the GPU by an asynchronous copy from pinned memory."""

    def coefficients(self, device, **named):
        unknown = {*named} - SUPPORTED
        if unknown:
            raise TypeError(f"unknown: {sorted(unknown, key=str.lower)}")
        host = torch.empty(len(SUPPORTED), pin_memory=True)
        for i, name in enumerate(("low", "high", "scale", "shift")):
            host[i] = named[name]
        return host.to(device, non_blocking=True)

    def forward(self, x):
        c = self.coefficients(x.device, low=-0.5, high=1.25, scale=3.0, shift=2.0)
        out = torch.zeros(0, device=x.device).new_empty(x.shape)
        n = x.numel()
        affine_kernel[(triton.cdiv(n, 512),)](x, c, out, n, BLOCK=512)
        return out
