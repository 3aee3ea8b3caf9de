"""bitsandbytes: its Triton backend (written for other accelerators) on the operators' own
formulas."""
# packages: bitsandbytes
import importlib
import torch
import torch.nn.functional as F
from corpus import Case, bare_package, folder_of

bare_package("bitsandbytes", folder_of("bitsandbytes", "bitsandbytes"))
bare_package("bitsandbytes.backends", folder_of("bitsandbytes", "bitsandbytes", "backends"))
T = importlib.import_module("bitsandbytes.backends.triton.ops")
randn = torch.randn
NF4 = torch.tensor([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                    0.7229568362236023, 1.0])
FP4 = torch.tensor([0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25, 0.0, -0.005208333333,
                    -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25])
CODE = torch.linspace(-1, 1, 256)


def nearest(x, code):
    return (x[..., None] - code).abs().argmin(-1)


def blocks(x, size):
    flat = F.pad(x.flatten(), (0, -x.numel() % size)).view(-1, size)
    return flat, flat.abs().amax(1)


def dequantized(code, size):
    def call(x):
        b, m = blocks(x.float(), size)
        return (code[nearest(b / m[:, None], code)] * m[:, None]).flatten()[: x.numel()].view(x.shape)
    return call


def there_and_back(kind, size):
    def call(x):
        packed, absmax = T.quantize_4bit(x, size, kind, torch.uint8)
        return T.dequantize_4bit(packed, absmax, size, kind, x.shape, x.dtype).float()
    return call


def blockwise(x):
    q, absmax = T.quantize_blockwise(x, CODE, 64)
    return T.dequantize_blockwise(q, absmax, CODE, 64, x.dtype), absmax


def gemv(x, w):
    packed, absmax = T.quantize_4bit(w, 64, "nf4", torch.uint8)
    return T.gemv_4bit(x, packed, w.shape, absmax, NF4, 64)


def update(name, p, g, m, v):
    T.optimizer_update_32bit(name, g, p, m, v, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.01, 3, 1e-2, 1.0)
    return p, m


def adam(p, g, m, v):
    p.mul_(1 - 1e-4)
    m.lerp_(g, 0.1), v.mul_(0.99).addcmul_(g, g, value=0.01)
    step = 1e-2 * (1 - 0.99 ** 3) ** 0.5 / (1 - 0.9 ** 3)
    return p - step * m / (v.sqrt() + 1e-8 * (1 - 0.99 ** 3) ** 0.5), m


def momentum(p, g, m, v):
    g = g + 0.01 * p
    m = 0.9 * m + g
    return p - 1e-2 * m, m


def lion(p, g, m, v):
    p = p * (1 - 1e-4)
    return p - 1e-2 * (0.9 * m + 0.1 * g).sign(), 0.99 * m + 0.01 * g


def state():
    return randn(7, 61), randn(7, 61), randn(7, 61) * 0.1, torch.rand(7, 61)


CASES = [
    Case("nf4", there_and_back("nf4", 64), dequantized(NF4, 64), lambda: (randn(10, 96),)),
    Case("fp4 bf16", there_and_back("fp4", 128), lambda x: dequantized(FP4, 128)(x),
         lambda: (randn(10, 128).bfloat16(),), tolerance=2e-2),
    Case("blockwise", blockwise, lambda x: (dequantized(CODE, 64)(x), blocks(x, 64)[1]), lambda: (randn(9, 100),),
         tolerance=8.1e-3),
    Case("gemv", gemv, lambda x, w: x @ dequantized(NF4, 64)(w).T, lambda: (randn(1, 128), randn(48, 128)),
         tolerance=1e-3),
    Case("adam", lambda *a: update("adam", *a), adam, state, tolerance=1e-3),
    Case("momentum", lambda *a: update("momentum", *a), momentum, state),
    Case("lion", lambda *a: update("lion", *a), lion, state),
]
