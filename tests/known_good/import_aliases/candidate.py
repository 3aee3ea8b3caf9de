import torch as th
import torch.nn
import triton as t
import triton.language as T
from triton import cdiv, jit


@jit
def hypot_minus_abs(a, b, o, n, B: T.constexpr):
    i = T.program_id(0) * B + T.arange(0, B)
    m = i < n
    u = T.load(a + i, m)
    v = T.load(b + i, m)
    T.store(o + i, T.sqrt(u * u + v * v + 1.0) - T.abs(u), m)


class ModelNew(th.nn.Module):
    def forward(self, a, b):
        o = th.empty_like(a)
        n = a.numel()
        assert t.__version__
        hypot_minus_abs[(cdiv(n, 128),)](a, b, o, n, 128)
        return o
