import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def where_kernel(m_ptr, a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = o < n
    m = tl.load(m_ptr + o, mask=ok, other=0)
    a = tl.load(a_ptr + o, mask=ok)
    b = tl.load(b_ptr + o, mask=ok)
    tl.store(o_ptr + o, tl.where(m != 0, a, b), mask=ok)


class ModelNew(nn.Module):
    def forward(self, mask, a, b):
        out = torch.empty_like(a)
        where_kernel[(triton.cdiv(a.numel(), 128),)](mask, a, b, out, a.numel(), 128)
        return out
