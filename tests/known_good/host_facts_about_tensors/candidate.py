import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick(x, y, g, o, COLS, sx, sy, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r, c = i // COLS, i % COLS
    m = i < n
    a = tl.load(x + r * sx + c, mask=m)
    b = tl.load(y + r * sy + c, mask=m)
    tl.store(o + i, tl.where(a > b, a * tl.load(g + c, mask=m), b), mask=m)


def check(t, like):
    assert torch.is_tensor(t) and t.is_cuda and not t.is_sparse and t.layout == torch.strided
    assert t.data_ptr() % t.element_size() == 0 and t.get_device() == like.get_device()
    assert t.dtype == like.dtype and torch.promote_types(t.dtype, like.dtype) == t.dtype
    assert not t.requires_grad or not torch.is_grad_enabled() or t.is_leaf


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(cols))

    def forward(self, x, y):
        weight = next(self.parameters())
        for t in (x, y, weight):
            check(t, x)
        x, y = torch.broadcast_tensors(x, y)
        assert x.shape == torch.broadcast_shapes(x.shape, y.shape) and x.nbytes == x.numel() * x.element_size()
        o = torch.empty(x.size(), dtype=torch.result_type(x, y), device=x.device)
        with torch.cuda.device_of(x):
            pick[(triton.cdiv(o.numel(), 64),)](x, y, weight, o, x.shape[-1], x.stride(0), y.stride(0), o.numel(), BLOCK=64)
        return o
