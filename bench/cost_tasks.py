"""Tasks and variants for bench/cost_h200.py: the same result by kernels that are good, uncoalesced, cut too small or too large, recomputing, unfused, spilling.

A task has tensors (name: shape, dtype, how it is filled), the names of its outputs and a reference in PyTorch. A variant is a list of launches; an argument that is a string
names a tensor. Shapes are fixed: no variant knows anything that another one does not.
"""
import torch
import triton
import triton.language as tl

TASKS = {}
F32, F16, BF16, I32 = torch.float32, torch.float16, torch.bfloat16, torch.int32


class Task:
    def __init__(self, name, tensors, outputs, reference, tolerance, variants):
        self.name, self.tensors, self.outputs, self.reference, self.tolerance, self.variants = name, tensors, outputs, reference, tolerance, variants
        TASKS[name] = self


class Launch:
    def __init__(self, kernel, grid, args, num_warps=4, num_stages=3):
        self.kernel, self.args, self.num_warps, self.num_stages = kernel, args, num_warps, num_stages
        self.grid = tuple(grid) + (1,) * (3 - len(grid))


def fill(name, spec, seed):
    """One tensor of a task, on the CPU: the same everywhere."""
    shape, dtype, how = spec
    g = torch.Generator().manual_seed(seed)
    if how == "normal":
        return torch.randn(shape, generator=g).to(dtype)
    if how == "zero":
        return torch.zeros(shape, dtype=dtype)
    return torch.randint(0, how, shape, generator=g, dtype=dtype)


def cdiv(a, b):
    return (a + b - 1) // b


# ---- element-wise ----

@triton.jit
def k_add(x, y, o, n, B: tl.constexpr, APART: tl.constexpr):
    if APART:
        i = tl.program_id(0) + tl.arange(0, B) * tl.num_programs(0)
    else:
        i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def k_add_loop(x, y, o, n, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        i = start + tl.arange(0, B)
        m = i < n
        tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def k_copy(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def k_zero(o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.zeros([B], o.dtype.element_ty), mask=i < n)


def add_task():
    n = 1 << 24

    def one(b, warps, apart=False):
        return [Launch(k_add, (cdiv(n, b),), dict(x="x", y="y", o="o", n=n, B=b, APART=apart), warps)]
    Task("add", {"x": ((n,), F32, "normal"), "y": ((n,), F32, "normal"), "o": ((n,), F32, "zero"), "t": ((n,), F32, "zero")}, ["o"], lambda t: {"o": t["x"] + t["y"]}, 1e-6, {
        "good": one(1024, 4), "tiny": one(32, 1), "tiny_idle": one(32, 4), "large": one(32768, 4), "apart": one(256, 4, True), "apart_large": one(2048, 4, True),
        "loop": [Launch(k_add_loop, (132,), dict(x="x", y="y", o="o", n=n, B=1024))],
        "unfused": [Launch(k_copy, (cdiv(n, 1024),), dict(x="x", o="t", n=n, B=1024)), Launch(k_add, (cdiv(n, 1024),), dict(x="t", y="y", o="o", n=n, B=1024, APART=False))],
    })


@triton.jit
def k_gelu(x, o, n, zero, REPEAT: tl.constexpr, B: tl.constexpr, APART: tl.constexpr):
    if APART:
        i = tl.program_id(0) + tl.arange(0, B) * tl.num_programs(0)
    else:
        i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m).to(tl.float32)
    y = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    for r in range(1, REPEAT):
        y = 0.5 * v * (1 + tl.erf((v + y * zero) * 0.7071067811865476))
    tl.store(o + i, y, mask=m)


@triton.jit
def k_erf(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(o + i, tl.erf(v * 0.7071067811865476), mask=i < n)


@triton.jit
def k_scale(x, e, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, 0.5 * tl.load(x + i, mask=m).to(tl.float32) * (1 + tl.load(e + i, mask=m)), mask=m)


def gelu_task():
    n = 1 << 24

    def one(b, warps, repeat=1, apart=False):
        return [Launch(k_gelu, (cdiv(n, b),), dict(x="x", o="o", n=n, zero=0.0, REPEAT=repeat, B=b, APART=apart), warps)]
    g = (cdiv(n, 1024),)
    Task("gelu", {"x": ((n,), F16, "normal"), "o": ((n,), F16, "zero"), "e": ((n,), F32, "zero")}, ["o"], lambda t: {"o": torch.nn.functional.gelu(t["x"].float())}, 2e-3, {
        "good": one(1024, 4), "tiny": one(64, 1), "large": one(16384, 4), "recompute": one(1024, 4, 8), "recompute_more": one(1024, 4, 24), "apart": one(256, 4, 1, True),
        "unfused": [Launch(k_erf, g, dict(x="x", o="e", n=n, B=1024)), Launch(k_scale, g, dict(x="x", e="e", o="o", n=n, B=1024))],
    })


@triton.jit
def k_swiglu(a, b, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(a + i, mask=m).to(tl.float32)
    tl.store(o + i, v / (1 + tl.exp(-v)) * tl.load(b + i, mask=m), mask=m)


@triton.jit
def k_swiglu_columns(a, b, o, rows, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    for c in range(tl.program_id(1) * 64, tl.program_id(1) * 64 + 64):
        at = r * cols + c
        v = tl.load(a + at).to(tl.float32)
        tl.store(o + at, v / (1 + tl.exp(-v)) * tl.load(b + at))


@triton.jit
def k_silu(a, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(a + i, mask=i < n).to(tl.float32)
    tl.store(o + i, v / (1 + tl.exp(-v)), mask=i < n)


@triton.jit
def k_mul(a, b, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(a + i, mask=m).to(tl.float32) * tl.load(b + i, mask=m), mask=m)


def swiglu_task():
    rows, cols = 4096, 2048
    n = rows * cols

    def one(b, warps):
        return [Launch(k_swiglu, (cdiv(n, b),), dict(a="a", b="b", o="o", n=n, B=b), warps)]
    g = (cdiv(n, 1024),)
    Task("swiglu", {"a": ((n,), BF16, "normal"), "b": ((n,), BF16, "normal"), "o": ((n,), BF16, "zero"), "t": ((n,), F32, "zero")}, ["o"],
         lambda t: {"o": torch.nn.functional.silu(t["a"].float()) * t["b"].float()}, 4e-2, {
        "good": one(1024, 4), "small": one(256, 4), "tiny": one(32, 1), "tiny_idle": one(64, 8), "large": one(32768, 8),
        "columns": [Launch(k_swiglu_columns, (rows // 128, cols // 64), dict(a="a", b="b", o="o", rows=rows, cols=cols, B=128))],
        "unfused": [Launch(k_silu, g, dict(a="a", o="t", n=n, B=1024)), Launch(k_mul, g, dict(a="t", b="b", o="o", n=n, B=1024))],
    })


@triton.jit
def k_dropout(x, o, n, seed, zero, p, REPEAT: tl.constexpr, B: tl.constexpr, APART: tl.constexpr):
    if APART:
        i = tl.program_id(0) + tl.arange(0, B) * tl.num_programs(0)
    else:
        i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    u = tl.rand(seed, i)
    for r in range(1, REPEAT):
        u = tl.minimum(u, tl.rand(seed + r * zero, i))
    tl.store(o + i, tl.where(u > p, tl.load(x + i, mask=m) / (1 - p), 0.0), mask=m)


@triton.jit
def k_rand(u, n, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(u + i, tl.rand(seed, i), mask=i < n)


@triton.jit
def k_drop(x, u, o, n, p, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.where(tl.load(u + i, mask=m) > p, tl.load(x + i, mask=m) / (1 - p), 0.0), mask=m)


def philox_uniform(seed, n, device):
    """tl.rand(seed, arange(n)) in PyTorch: Philox 4x32 with 10 rounds, its first word as a number in [0, 1)."""
    mask = 0xFFFFFFFF
    c = [torch.arange(n, dtype=torch.int64, device=device)] + [torch.zeros(n, dtype=torch.int64, device=device)] * 3
    k = [seed & mask, seed >> 32 & mask]

    def product(a, b):   # (high, low) words of a 32 by 32 bit product, which int64 does not hold
        low, high = a * (b & 0xFFFF), a * (b >> 16)
        mid = (low >> 16) + (high & 0xFFFF)
        return (high >> 16) + (mid >> 16), (mid << 16 | low & 0xFFFF) & mask
    for _ in range(10):
        h0, l0 = product(c[2], 0xCD9E8D57)
        h1, l1 = product(c[0], 0xD2511F53)
        c = [h0 ^ c[1] ^ k[0], l0, h1 ^ c[3] ^ k[1], l1]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    x = c[0].to(torch.int32)
    return torch.where(x < 0, -x - 1, x).float() * 4.6566127342e-10


def dropout_task():
    n = 1 << 23

    def one(b, warps, repeat=1, apart=False):
        return [Launch(k_dropout, (cdiv(n, b),), dict(x="x", o="o", n=n, seed=12345, zero=0, p=0.25, REPEAT=repeat, B=b, APART=apart), warps)]
    g = (cdiv(n, 1024),)
    Task("dropout", {"x": ((n,), F32, "normal"), "o": ((n,), F32, "zero"), "u": ((n,), F32, "zero")}, ["o"],
         lambda t: {"o": torch.where(philox_uniform(12345, n, t["x"].device) > 0.25, t["x"] / 0.75, 0.0)}, 1e-5, {
        "good": one(1024, 4), "tiny": one(32, 1), "tiny_idle": one(32, 4), "large": one(16384, 4), "recompute": one(1024, 4, 5), "apart": one(512, 4, 1, True),
        "unfused": [Launch(k_rand, g, dict(u="u", n=n, seed=12345, B=1024)), Launch(k_drop, g, dict(x="x", u="u", o="o", n=n, p=0.25, B=1024))],
    })


# ---- rows: softmax, norms, sums, scan, loss ----

@triton.jit
def k_softmax(x, o, cols, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, B)
    at = r[:, None] * cols + c[None, :]
    v = tl.load(x + at, mask=c[None, :] < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(o + at, e / tl.sum(e, 1)[:, None], mask=c[None, :] < cols)


@triton.jit
def k_softmax_loop(x, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    top = tl.full([B], -float("inf"), tl.float32)
    for start in range(0, cols, B):
        c = start + tl.arange(0, B)
        top = tl.maximum(top, tl.load(x + row * cols + c, mask=c < cols, other=-float("inf")))
    high = tl.max(top, 0)
    total = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        c = start + tl.arange(0, B)
        total += tl.exp(tl.load(x + row * cols + c, mask=c < cols, other=-float("inf")) - high)
    scale = 1 / tl.sum(total, 0)
    for start in range(0, cols, B):
        c = start + tl.arange(0, B)
        tl.store(o + row * cols + c, tl.exp(tl.load(x + row * cols + c, mask=c < cols) - high) * scale, mask=c < cols)


@triton.jit
def k_softmax_columns(x, o, cols, B: tl.constexpr):
    r = (tl.program_id(0) * B + tl.arange(0, B)) * cols
    high = tl.full([B], -float("inf"), tl.float32)
    total = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        v = tl.load(x + r + c)
        new = tl.maximum(high, v)
        total = total * tl.exp(high - new) + tl.exp(v - new)
        high = new
    for c in range(0, cols):
        tl.store(o + r + c, tl.exp(tl.load(x + r + c) - high) / total)


@triton.jit
def k_row_max(x, o, cols, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(o + tl.program_id(0), tl.max(tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=-float("inf")), 0))


@triton.jit
def k_row_exp(x, high, o, cols, B: tl.constexpr):
    c = tl.arange(0, B)
    row = tl.program_id(0)
    v = tl.load(x + row * cols + c, mask=c < cols)
    tl.store(o + row * cols + c, tl.exp(v - tl.load(high + row)), mask=c < cols)


@triton.jit
def k_row_divide(x, o, cols, B: tl.constexpr):
    c = tl.arange(0, B)
    row = tl.program_id(0)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
    tl.store(o + row * cols + c, v / tl.sum(v, 0), mask=c < cols)


def softmax_task():
    rows, cols = 8192, 2048

    def block(r, warps):
        return [Launch(k_softmax, (rows // r,), dict(x="x", o="o", cols=cols, ROWS=r, B=cols), warps)]

    def loop(b, warps):
        return [Launch(k_softmax_loop, (rows,), dict(x="x", o="o", cols=cols, B=b), warps)]
    Task("softmax", {"x": ((rows, cols), F32, "normal"), "o": ((rows, cols), F32, "zero"), "h": ((rows,), F32, "zero")}, ["o"], lambda t: {"o": torch.softmax(t["x"], 1)}, 1e-5, {
        "good": block(1, 4), "rows4": block(4, 8), "spill": block(8, 2), "one_warp": block(1, 1), "many_warps": block(1, 32), "loop": loop(512, 4), "tiny_loop": loop(32, 1),
        "columns": [Launch(k_softmax_columns, (rows // 64,), dict(x="x", o="o", cols=cols, B=64), 2)],
        "unfused": [Launch(k_row_max, (rows,), dict(x="x", o="h", cols=cols, B=cols)), Launch(k_row_exp, (rows,), dict(x="x", high="h", o="o", cols=cols, B=cols)),
                    Launch(k_row_divide, (rows,), dict(x="o", o="o", cols=cols, B=cols))],
    })


@triton.jit
def k_layernorm(x, w, b, o, cols, eps, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, B)
    at = r[:, None] * cols + c[None, :]
    v = tl.load(x + at).to(tl.float32)
    d = v - (tl.sum(v, 1) / cols)[:, None]
    var = tl.sum(d * d, 1) / cols
    y = d * tl.rsqrt(var + eps)[:, None] * tl.load(w + c)[None, :] + tl.load(b + c)[None, :]
    tl.store(o + at, y)


@triton.jit
def k_layernorm_loop(x, w, b, o, cols, eps, B: tl.constexpr):
    row = tl.program_id(0) * cols
    total = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        total += tl.load(x + row + start + tl.arange(0, B)).to(tl.float32)
    mean = tl.sum(total, 0) / cols
    square = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        d = tl.load(x + row + start + tl.arange(0, B)).to(tl.float32) - mean
        square += d * d
    scale = tl.rsqrt(tl.sum(square, 0) / cols + eps)
    for start in range(0, cols, B):
        c = start + tl.arange(0, B)
        d = tl.load(x + row + c).to(tl.float32) - mean
        tl.store(o + row + c, d * scale * tl.load(w + c) + tl.load(b + c))


@triton.jit
def k_layernorm_columns(x, w, b, o, cols, eps, B: tl.constexpr):
    r = (tl.program_id(0) * B + tl.arange(0, B)) * cols
    total = tl.zeros([B], tl.float32)
    square = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        v = tl.load(x + r + c).to(tl.float32)
        total += v
        square += v * v
    mean = total / cols
    scale = tl.rsqrt(square / cols - mean * mean + eps)
    for c in range(0, cols):
        tl.store(o + r + c, (tl.load(x + r + c).to(tl.float32) - mean) * scale * tl.load(w + c) + tl.load(b + c))


@triton.jit
def k_row_mean(x, o, cols, B: tl.constexpr):
    tl.store(o + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * cols + tl.arange(0, B)).to(tl.float32), 0) / cols)


@triton.jit
def k_row_center(x, mean, o, cols, B: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, B)
    tl.store(o + at, tl.load(x + at).to(tl.float32) - tl.load(mean + tl.program_id(0)))


@triton.jit
def k_row_scale(d, w, b, o, cols, eps, B: tl.constexpr):
    c = tl.arange(0, B)
    at = tl.program_id(0) * cols + c
    v = tl.load(d + at)
    tl.store(o + at, v * tl.rsqrt(tl.sum(v * v, 0) / cols + eps) * tl.load(w + c) + tl.load(b + c))


def layernorm_task():
    rows, cols = 8192, 1024
    base = dict(x="x", w="w", b="b", o="o", cols=cols, eps=1e-5)

    def block(r, warps):
        return [Launch(k_layernorm, (rows // r,), dict(base, ROWS=r, B=cols), warps)]

    def loop(b, warps):
        return [Launch(k_layernorm_loop, (rows,), dict(base, B=b), warps)]
    tensors = {"x": ((rows, cols), BF16, "normal"), "w": ((cols,), F32, "normal"), "b": ((cols,), F32, "normal"), "o": ((rows, cols), BF16, "zero"), "m": ((rows,), F32, "zero"),
               "d": ((rows, cols), F32, "zero")}
    Task("layernorm", tensors, ["o"], lambda t: {"o": torch.nn.functional.layer_norm(t["x"].float(), (cols,), t["w"], t["b"])}, 6e-2, {
        "good": block(1, 4), "rows4": block(4, 4), "spill": block(16, 2), "many_warps": block(1, 16), "loop": loop(256, 4), "tiny_loop": loop(32, 1),
        "columns": [Launch(k_layernorm_columns, (rows // 32,), dict(base, B=32), 1)],
        "unfused": [Launch(k_row_mean, (rows,), dict(x="x", o="m", cols=cols, B=cols)), Launch(k_row_center, (rows,), dict(x="x", mean="m", o="d", cols=cols, B=cols)),
                    Launch(k_row_scale, (rows,), dict(d="d", w="w", b="b", o="o", cols=cols, eps=1e-5, B=cols))],
    })


@triton.jit
def k_rmsnorm(x, w, o, cols, eps, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, B)
    at = r[:, None] * cols + c[None, :]
    v = tl.load(x + at).to(tl.float32)
    tl.store(o + at, v * tl.rsqrt(tl.sum(v * v, 1) / cols + eps)[:, None] * tl.load(w + c)[None, :])


@triton.jit
def k_rmsnorm_scalar(x, w, o, rows, cols, eps, B: tl.constexpr):
    r = (tl.program_id(0) * B + tl.arange(0, B)) * cols
    square = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        v = tl.load(x + r + c).to(tl.float32)
        square += v * v
    scale = tl.rsqrt(square / cols + eps)
    for c in range(0, cols):
        tl.store(o + r + c, tl.load(x + r + c).to(tl.float32) * scale * tl.load(w + c))


@triton.jit
def k_square_mean(x, o, cols, B: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * cols + tl.arange(0, B)).to(tl.float32)
    tl.store(o + tl.program_id(0), tl.sum(v * v, 0) / cols)


@triton.jit
def k_rms_apply(x, s, w, o, cols, eps, B: tl.constexpr):
    c = tl.arange(0, B)
    at = tl.program_id(0) * cols + c
    tl.store(o + at, tl.load(x + at).to(tl.float32) * tl.rsqrt(tl.load(s + tl.program_id(0)) + eps) * tl.load(w + c))


def rmsnorm_task():
    rows, cols = 65536, 128
    base = dict(x="x", w="w", o="o", cols=cols, eps=1e-6)

    def block(r, warps):
        return [Launch(k_rmsnorm, (rows // r,), dict(base, ROWS=r, B=cols), warps)]
    Task("rmsnorm", {"x": ((rows, cols), F16, "normal"), "w": ((cols,), F32, "normal"), "o": ((rows, cols), F16, "zero"), "s": ((rows,), F32, "zero")}, ["o"],
         lambda t: {"o": torch.nn.functional.rms_norm(t["x"].float(), (cols,), t["w"], 1e-6)}, 2e-2, {
        "good": block(16, 4), "row": block(1, 1), "row_idle": block(1, 8), "rows4": block(4, 4), "large": block(256, 8), "spill": block(256, 2),
        "columns": [Launch(k_rmsnorm_scalar, (rows // 128,), dict(base, rows=rows, B=128))],
        "unfused": [Launch(k_square_mean, (rows,), dict(x="x", o="s", cols=cols, B=cols), 1), Launch(k_rms_apply, (rows,), dict(x="x", s="s", w="w", o="o", cols=cols, eps=1e-6, B=cols), 1)],
    })


@triton.jit
def k_row_sum(x, o, cols, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        total += tl.load(x + tl.program_id(0) * cols + start + tl.arange(0, B))
    tl.store(o + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def k_row_sum_atomic(x, o, cols, B: tl.constexpr):
    tl.atomic_add(o + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * cols + tl.program_id(1) * B + tl.arange(0, B)), 0), sem="relaxed")


@triton.jit
def k_row_sum_part(x, o, cols, B: tl.constexpr):
    tl.store(o + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.sum(tl.load(x + tl.program_id(0) * cols + tl.program_id(1) * B + tl.arange(0, B)), 0))


@triton.jit
def k_row_sum_columns(x, o, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        total += tl.load(x + r * cols + c)
    tl.store(o + r, total)


def row_sum_task():
    rows, cols = 2048, 8192

    def loop(b, warps):
        return [Launch(k_row_sum, (rows,), dict(x="x", o="o", cols=cols, B=b), warps)]

    def atomic(b, warps):
        return [Launch(k_zero, (cdiv(rows, 1024),), dict(o="o", n=rows, B=1024)), Launch(k_row_sum_atomic, (rows, cols // b), dict(x="x", o="o", cols=cols, B=b), warps)]
    Task("row_sum", {"x": ((rows, cols), F32, "normal"), "o": ((rows,), F32, "zero"), "p": ((rows, 8), F32, "zero")}, ["o"], lambda t: {"o": t["x"].sum(1)}, 2e-3, {
        "good": loop(8192, 8), "loop": loop(1024, 4), "tiny_loop": loop(32, 1), "idle": loop(64, 8), "atomic": atomic(1024, 4), "atomic_tiny": atomic(32, 1),
        "columns": [Launch(k_row_sum_columns, (rows // 32,), dict(x="x", o="o", cols=cols, B=32), 1)],
        "two_steps": [Launch(k_row_sum_part, (rows, 8), dict(x="x", o="p", cols=cols, B=1024)), Launch(k_row_sum, (rows,), dict(x="p", o="o", cols=8, B=8), 1)],
    })


@triton.jit
def k_col_sum(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros([BR, BC], tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        total += tl.load(x + r[:, None] * cols + c[None, :])
    tl.store(o + c, tl.sum(total, 0))


@triton.jit
def k_col_sum_atomic(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    tl.atomic_add(o + c, tl.sum(tl.load(x + r[:, None] * cols + c[None, :]), 0), sem="relaxed")


@triton.jit
def k_col_sum_part(x, o, rows, cols, SPLIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros([BR, BC], tl.float32)
    for start in range(0, rows // SPLIT, BR):
        r = tl.program_id(1) * (rows // SPLIT) + start + tl.arange(0, BR)
        total += tl.load(x + r[:, None] * cols + c[None, :])
    tl.store(o + tl.program_id(1) * cols + c, tl.sum(total, 0))


def col_sum_task():
    rows, cols = 8192, 2048

    def loop(br, bc, warps):
        return [Launch(k_col_sum, (cols // bc,), dict(x="x", o="o", rows=rows, cols=cols, BR=br, BC=bc), warps)]

    def atomic(br, bc, warps):
        return [Launch(k_zero, (2,), dict(o="o", n=cols, B=1024)), Launch(k_col_sum_atomic, (cols // bc, rows // br), dict(x="x", o="o", rows=rows, cols=cols, BR=br, BC=bc), warps)]
    Task("col_sum", {"x": ((rows, cols), F32, "normal"), "o": ((cols,), F32, "zero"), "p": ((64, cols), F32, "zero")}, ["o"], lambda t: {"o": t["x"].sum(0)}, 2e-3, {
        "good": [Launch(k_col_sum_part, (cols // 128, 64), dict(x="x", o="p", rows=rows, cols=cols, SPLIT=64, BR=16, BC=128)),
                 Launch(k_col_sum, (cols // 32,), dict(x="p", o="o", rows=64, cols=cols, BR=64, BC=32))],
        "few_programs": loop(32, 128, 8), "column": loop(1024, 1, 4), "narrow": loop(64, 8, 4), "serial": loop(1, 128, 4), "atomic": atomic(64, 128, 4), "atomic_row": atomic(1, 128, 4),
        "atomic_large": atomic(512, 128, 8),
    })


@triton.jit
def k_cumsum(x, o, cols, ROWS: tl.constexpr, B: tl.constexpr):
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * cols + tl.arange(0, B)[None, :]
    tl.store(o + at, tl.cumsum(tl.load(x + at), 1))


@triton.jit
def k_cumsum_loop(x, o, cols, B: tl.constexpr):
    before = 0.0
    for start in range(0, cols, B):
        at = tl.program_id(0) * cols + start + tl.arange(0, B)
        v = tl.load(x + at)
        tl.store(o + at, tl.cumsum(v, 0) + before)
        before += tl.sum(v, 0)


@triton.jit
def k_cumsum_columns(x, o, cols, B: tl.constexpr):
    r = (tl.program_id(0) * B + tl.arange(0, B)) * cols
    total = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        total += tl.load(x + r + c)
        tl.store(o + r + c, total)


@triton.jit
def k_block_sum(x, s, cols, B: tl.constexpr):
    at = tl.program_id(0) * cols + tl.program_id(1) * B + tl.arange(0, B)
    tl.store(s + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.sum(tl.load(x + at), 0))


@triton.jit
def k_block_scan(x, s, o, cols, NB: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * cols + tl.program_id(1) * B + tl.arange(0, B)
    i = tl.arange(0, NB)
    before = tl.sum(tl.where(i < tl.program_id(1), tl.load(s + tl.program_id(0) * NB + i), 0.0), 0)
    tl.store(o + at, tl.cumsum(tl.load(x + at), 0) + before)


def cumsum_task():
    rows, cols = 4096, 2048

    def block(r, warps):
        return [Launch(k_cumsum, (rows // r,), dict(x="x", o="o", cols=cols, ROWS=r, B=cols), warps)]

    def loop(b, warps):
        return [Launch(k_cumsum_loop, (rows,), dict(x="x", o="o", cols=cols, B=b), warps)]
    Task("cumsum", {"x": ((rows, cols), F32, "normal"), "o": ((rows, cols), F32, "zero"), "s": ((rows, 8), F32, "zero")}, ["o"], lambda t: {"o": torch.cumsum(t["x"].double(), 1)}, 2e-3, {
        "good": block(1, 4), "one_warp": block(1, 1), "many_warps": block(1, 32), "spill": block(8, 2), "loop": loop(256, 4), "tiny_loop": loop(32, 1),
        "columns": [Launch(k_cumsum_columns, (rows // 32,), dict(x="x", o="o", cols=cols, B=32), 1)],
        "two_steps": [Launch(k_block_sum, (rows, 8), dict(x="x", s="s", cols=cols, B=256)), Launch(k_block_scan, (rows, 8), dict(x="x", s="s", o="o", cols=cols, NB=8, B=256))],
    })


@triton.jit
def k_xent(x, y, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * cols + c, mask=c < cols, other=-float("inf")).to(tl.float32)
    high = tl.max(v, 0)
    tl.store(o + row, tl.log(tl.sum(tl.exp(v - high), 0)) + high - tl.load(x + row * cols + tl.load(y + row)).to(tl.float32))


@triton.jit
def k_xent_loop(x, y, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    high = -float("inf")
    total = 0.0
    for start in range(0, cols, B):
        v = tl.load(x + row * cols + start + tl.arange(0, B)).to(tl.float32)
        new = tl.maximum(high, tl.max(v, 0))
        total = total * tl.exp(high - new) + tl.sum(tl.exp(v - new), 0)
        high = new
    tl.store(o + row, tl.log(total) + high - tl.load(x + row * cols + tl.load(y + row)).to(tl.float32))


@triton.jit
def k_xent_two_pass(x, y, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    top = tl.full([B], -float("inf"), tl.float32)
    for start in range(0, cols, B):
        top = tl.maximum(top, tl.load(x + row * cols + start + tl.arange(0, B)).to(tl.float32))
    high = tl.max(top, 0)
    total = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        total += tl.exp(tl.load(x + row * cols + start + tl.arange(0, B)).to(tl.float32) - high)
    tl.store(o + row, tl.log(tl.sum(total, 0)) + high - tl.load(x + row * cols + tl.load(y + row)).to(tl.float32))


@triton.jit
def k_xent_columns(x, y, o, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    high = tl.full([B], -float("inf"), tl.float32)
    total = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        v = tl.load(x + r * cols + c).to(tl.float32)
        new = tl.maximum(high, v)
        total = total * tl.exp(high - new) + tl.exp(v - new)
        high = new
    tl.store(o + r, tl.log(total) + high - tl.load(x + r * cols + tl.load(y + r)).to(tl.float32))


@triton.jit
def k_exp_store(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.exp(tl.load(x + i).to(tl.float32)))


@triton.jit
def k_log_pick(x, s, y, o, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + r, tl.log(tl.load(s + r)) - tl.load(x + r * cols + tl.load(y + r)).to(tl.float32))


def xent_task():
    rows, cols = 2048, 8192
    base = dict(x="x", y="y", o="o", cols=cols)

    def of(kernel, b, warps):
        return [Launch(kernel, (rows,), dict(base, B=b), warps)]
    tensors = {"x": ((rows, cols), F16, "normal"), "y": ((rows,), I32, cols), "o": ((rows,), F32, "zero"), "e": ((rows, cols), F32, "zero"), "s": ((rows,), F32, "zero")}
    Task("cross_entropy", tensors, ["o"], lambda t: {"o": torch.nn.functional.cross_entropy(t["x"].float(), t["y"].long(), reduction="none")}, 1e-3, {
        "good": of(k_xent, 8192, 8), "spill": of(k_xent, 8192, 1), "many_warps": of(k_xent, 8192, 32), "online": of(k_xent_loop, 1024, 4), "online_tiny": of(k_xent_loop, 64, 2),
        "two_pass": of(k_xent_two_pass, 1024, 4), "columns": [Launch(k_xent_columns, (rows // 32,), dict(base, B=32), 1)],
        "unfused": [Launch(k_exp_store, (rows * cols // 1024,), dict(x="x", o="e", n=rows * cols, B=1024)), Launch(k_row_sum, (rows,), dict(x="e", o="s", cols=cols, B=1024)),
                    Launch(k_log_pick, (rows // 128,), dict(x="x", s="s", y="y", o="o", cols=cols, B=128))],
    })


# ---- movement: transpose, stencil, gather, histogram, rotary, pooling ----

@triton.jit
def k_transpose(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    tl.store(o + c[:, None] * rows + r[None, :], tl.trans(tl.load(x + r[:, None] * cols + c[None, :])))


def transpose_task():
    rows, cols = 4096, 2048

    def tile(br, bc, warps):
        return [Launch(k_transpose, (rows // br, cols // bc), dict(x="x", o="o", rows=rows, cols=cols, BR=br, BC=bc), warps)]
    Task("transpose", {"x": ((rows, cols), F32, "normal"), "o": ((cols, rows), F32, "zero")}, ["o"], lambda t: {"o": t["x"].t().contiguous()}, 0.0, {
        "good": tile(64, 64, 4), "tile32": tile(32, 32, 4), "tile8": tile(8, 8, 1), "row": tile(1, 1024, 4), "column": tile(1024, 1, 4), "large": tile(128, 256, 8), "spill": tile(256, 256, 4),
    })


@triton.jit
def k_blur(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    total = tl.zeros([BR, BC], tl.float32)
    for dr in tl.static_range(-2, 3):
        for dc in tl.static_range(-2, 3):
            rr, cc = r[:, None] + dr, c[None, :] + dc
            total += tl.load(x + rr * cols + cc, mask=(rr >= 0) & (rr < rows) & (cc >= 0) & (cc < cols), other=0.0)
    tl.store(o + r[:, None] * cols + c[None, :], total * 0.04)


@triton.jit
def k_blur_across(x, o, rows, cols, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for d in tl.static_range(-2, 3):
        total += tl.load(x + r * cols + c + d, mask=(c + d >= 0) & (c + d < cols), other=0.0)
    tl.store(o + r * cols + c, total)


@triton.jit
def k_blur_down(x, o, rows, cols, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for d in tl.static_range(-2, 3):
        total += tl.load(x + (r + d) * cols + c, mask=(r + d >= 0) & (r + d < rows) & (c < cols), other=0.0)
    tl.store(o + r * cols + c, total * 0.04)


def blur_task():
    rows, cols = 2048, 4096

    def tile(br, bc, warps):
        return [Launch(k_blur, (rows // br, cols // bc), dict(x="x", o="o", rows=rows, cols=cols, BR=br, BC=bc), warps)]
    g = (rows, cols // 1024)
    Task("blur", {"x": ((rows, cols), F32, "normal"), "o": ((rows, cols), F32, "zero"), "t": ((rows, cols), F32, "zero")}, ["o"],
         lambda t: {"o": torch.nn.functional.avg_pool2d(t["x"][None, None], 5, 1, 2)[0, 0]}, 1e-5, {
        "good": tile(8, 128, 4), "row": tile(1, 1024, 4), "column": tile(512, 1, 4), "tiny": tile(4, 8, 1), "large": tile(64, 128, 4), "narrow": tile(128, 8, 4),
        "separable": [Launch(k_blur_across, g, dict(x="x", o="t", rows=rows, cols=cols, B=1024)), Launch(k_blur_down, g, dict(x="t", o="o", rows=rows, cols=cols, B=1024))],
    })


@triton.jit
def k_embed(ids, table, o, dim, TOKENS: tl.constexpr, B: tl.constexpr):
    t = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    d = tl.program_id(1) * B + tl.arange(0, B)
    row = tl.load(ids + t)
    tl.store(o + t[:, None] * dim + d[None, :], tl.load(table + row[:, None] * dim + d[None, :]))


@triton.jit
def k_embed_flat(ids, table, o, dim, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(table + tl.load(ids + i // dim) * dim + i % dim))


@triton.jit
def k_embed_columns(ids, table, o, dim, B: tl.constexpr):
    t = tl.program_id(0) * B + tl.arange(0, B)
    row = tl.load(ids + t)
    for d in range(tl.program_id(1) * 64, tl.program_id(1) * 64 + 64):
        tl.store(o + t * dim + d, tl.load(table + row * dim + d))


def embed_task():
    tokens, dim, words = 16384, 512, 32000
    base = dict(ids="ids", table="table", o="o", dim=dim)

    def block(t, b, warps):
        return [Launch(k_embed, (tokens // t, dim // b), dict(base, TOKENS=t, B=b), warps)]
    Task("embedding", {"ids": ((tokens,), I32, words), "table": ((words, dim), F16, "normal"), "o": ((tokens, dim), F16, "zero")}, ["o"],
         lambda t: {"o": t["table"][t["ids"].long()]}, 0.0, {
        "good": block(8, 512, 4), "row": block(1, 512, 2), "row_idle": block(1, 512, 16), "tiny": block(1, 16, 1), "large": block(64, 512, 4),
        "flat": [Launch(k_embed_flat, (tokens * dim // 1024,), dict(base, n=tokens * dim, B=1024))],
        "columns": [Launch(k_embed_columns, (tokens // 128, dim // 64), dict(base, B=128))],
    })


@triton.jit
def k_count_atomic(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + tl.load(x + i), 1, mask=i < n, sem="relaxed")


@triton.jit
def k_count_block(x, o, n, BINS: tl.constexpr, B: tl.constexpr):
    total = tl.zeros([BINS], tl.int32)
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        total += tl.histogram(tl.load(x + start + tl.arange(0, B)), BINS)
    tl.atomic_add(o + tl.arange(0, BINS), total, sem="relaxed")


@triton.jit
def k_count_compare(x, o, n, B: tl.constexpr):
    total = tl.zeros([B], tl.int32)
    for start in range(tl.program_id(1) * B, n, tl.num_programs(1) * B):
        total += (tl.load(x + start + tl.arange(0, B)) == tl.program_id(0)).to(tl.int32)
    tl.atomic_add(o + tl.program_id(0), tl.sum(total, 0), sem="relaxed")


def histogram_task():
    n, bins = 1 << 21, 128
    zero = Launch(k_zero, (1,), dict(o="o", n=bins, B=128))

    def atomic(b, warps):
        return [zero, Launch(k_count_atomic, (n // b,), dict(x="x", o="o", n=n, B=b), warps)]

    def block(programs, b, warps):
        return [zero, Launch(k_count_block, (programs,), dict(x="x", o="o", n=n, BINS=bins, B=b), warps)]
    Task("histogram", {"x": ((n,), I32, bins), "o": ((bins,), I32, "zero")}, ["o"], lambda t: {"o": torch.bincount(t["x"], minlength=bins)}, 0.0, {
        "good": block(528, 1024, 4), "one_block": block(n // 1024, 1024, 4), "few": block(32, 1024, 4), "tiny": block(n // 128, 128, 4), "atomic": atomic(1024, 4), "atomic_tiny": atomic(32, 1),
        "compare": [zero, Launch(k_count_compare, (bins, 16), dict(x="x", o="o", n=n, B=1024))],
    })


@triton.jit
def k_rope(x, cos, sin, o, half, heads, HEADS: tl.constexpr, B: tl.constexpr):
    token = tl.program_id(0)
    d = tl.arange(0, B)
    h = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    at = (token * heads + h[:, None]) * half * 2 + d[None, :]
    c, s = tl.load(cos + token * half + d)[None, :], tl.load(sin + token * half + d)[None, :]
    a, b = tl.load(x + at).to(tl.float32), tl.load(x + at + half).to(tl.float32)
    tl.store(o + at, a * c - b * s)
    tl.store(o + at + half, b * c + a * s)


@triton.jit
def k_rope_flat(x, cos, sin, o, half, heads, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    d = i % (2 * half)
    token = i // (2 * half * heads)
    low = d < half
    k = token * half + tl.where(low, d, d - half)
    other = tl.load(x + tl.where(low, i + half, i - half)).to(tl.float32)
    v = tl.load(x + i).to(tl.float32)
    tl.store(o + i, v * tl.load(cos + k) + tl.where(low, -other, other) * tl.load(sin + k))


@triton.jit
def k_rope_columns(x, cos, sin, o, half, heads, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    token = row // heads
    for d in range(0, half):
        c, s = tl.load(cos + token * half + d), tl.load(sin + token * half + d)
        a, b = tl.load(x + row * half * 2 + d).to(tl.float32), tl.load(x + row * half * 2 + half + d).to(tl.float32)
        tl.store(o + row * half * 2 + d, a * c - b * s)
        tl.store(o + row * half * 2 + half + d, b * c + a * s)


def rope_reference(t):
    x = t["x"].float()
    half = x.shape[-1] // 2
    c, s = t["cos"][:, None], t["sin"][:, None]
    return {"o": torch.cat([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], -1)}


def rope_task():
    tokens, heads, half = 4096, 16, 64
    base = dict(x="x", cos="cos", sin="sin", o="o", half=half, heads=heads)
    n = tokens * heads * half * 2

    def block(h, warps):
        return [Launch(k_rope, (tokens, heads // h), dict(base, HEADS=h, B=half), warps)]

    def flat(b, warps):
        return [Launch(k_rope_flat, (n // b,), dict(base, n=n, B=b), warps)]
    tensors = {"x": ((tokens, heads, 2 * half), BF16, "normal"), "cos": ((tokens, half), F32, "normal"), "sin": ((tokens, half), F32, "normal"), "o": ((tokens, heads, 2 * half), BF16, "zero")}
    Task("rope", tensors, ["o"], rope_reference, 6e-2, {
        "good": block(16, 4), "head": block(1, 1), "head_idle": block(1, 8), "one_warp": block(16, 1), "flat": flat(1024, 4), "flat_tiny": flat(32, 1),
        "columns": [Launch(k_rope_columns, (tokens * heads // 64,), dict(base, B=64), 2)],
    })


# ---- matrix products ----

@triton.jit
def k_matmul(a, b, c, M, N, K, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    pa = a + om[:, None] * K + ok[None, :]
    pb = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc, input_precision=PRECISION)
        pa += BK
        pb += BK * N
    tl.store(c + om[:, None] * N + on[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def k_matmul_rows(a, b, c, M, N, K, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1)
    acc = tl.zeros((BN,), tl.float32)
    for k in range(0, K):
        acc += tl.load(a + m * K + k).to(tl.float32) * tl.load(b + k * N + n).to(tl.float32)
    tl.store(c + m * N + n, acc.to(c.dtype.element_ty))


@triton.jit
def k_matmul_split(a, b, c, M, N, K, PRECISION: tl.constexpr, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.program_id(2) * (K // SPLIT) + tl.arange(0, BK)
    pa = a + om[:, None] * K + ok[None, :]
    pb = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K // SPLIT, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc, input_precision=PRECISION)
        pa += BK
        pb += BK * N
    tl.atomic_add(c + om[:, None] * N + on[None, :], acc, sem="relaxed")


def matmul_task(name, m, n, k, dtype, precision, tolerance, tiles, split=None):
    base = dict(a="a", b="b", c="c", M=m, N=n, K=k)
    variants = {}
    for label, (bm, bn, bk, warps, stages) in tiles.items():
        variants[label] = [Launch(k_matmul, (n // bn, m // bm), dict(base, PRECISION=precision, BM=bm, BN=bn, BK=bk), warps, stages)]
    if split:
        bm, bn, bk, warps, stages, parts = split
        variants["split"] = [Launch(k_zero, (m * n // 1024,), dict(o="c", n=m * n, B=1024)),
                             Launch(k_matmul_split, (n // bn, m // bm, parts), dict(base, PRECISION=precision, SPLIT=parts, BM=bm, BN=bn, BK=bk), warps, stages)]
    variants["rows"] = [Launch(k_matmul_rows, (n // 256, m), dict(base, BN=256))]
    Task(name, {"a": ((m, k), dtype, "normal"), "b": ((k, n), dtype, "normal"), "c": ((m, n), dtype, "zero")}, ["c"],
         lambda t: {"c": t["a"].double() @ t["b"].double()}, tolerance, variants)


def matmul_tasks():
    matmul_task("matmul_f16", 1024, 2048, 1024, F16, "tf32", 0.25, {
        "good": (128, 128, 64, 8, 3), "tile64": (64, 64, 64, 4, 3), "tile32": (32, 32, 32, 4, 3), "tile16": (16, 16, 16, 1, 2), "no_pipeline": (128, 128, 64, 8, 1), "spill": (256, 256, 32, 4, 2),
        "flat_k": (128, 128, 16, 8, 3)})
    matmul_task("matmul_tf32", 1024, 1024, 1024, F32, "tf32", 0.5, {
        "good": (64, 128, 32, 4, 3), "tile128": (128, 128, 32, 8, 3), "tile32": (32, 32, 32, 4, 3), "tile16": (16, 16, 16, 1, 2), "no_pipeline": (64, 128, 32, 4, 1), "spill": (256, 256, 16, 4, 2)},
        split=(128, 128, 32, 8, 3, 4))
    matmul_task("matmul_f32", 512, 1024, 512, F32, "ieee", 2e-3, {
        "good": (64, 64, 32, 8, 2), "tile128": (128, 64, 16, 8, 2), "tile32": (32, 32, 32, 4, 2), "tile16": (16, 16, 16, 1, 1), "few_warps": (64, 64, 16, 2, 2), "large": (128, 128, 16, 8, 2)},
        split=(64, 64, 32, 8, 2, 4))


@triton.jit
def k_bias_gelu(x, bias, o, cols, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i).to(tl.float32) + tl.load(bias + i % cols)
    tl.store(o + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)))


@triton.jit
def k_linear_gelu(a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    pa = a + om[:, None] * K + ok[None, :]
    pb = b + on[None, :] * K + ok[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK
    v = acc + tl.load(bias + on)[None, :]
    tl.store(c + om[:, None] * N + on[None, :], 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)))


@triton.jit
def k_linear(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    pa = a + om[:, None] * K + ok[None, :]
    pb = b + on[None, :] * K + ok[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK
    tl.store(c + om[:, None] * N + on[None, :], acc)


def linear_task():
    m, n, k = 2048, 2048, 256
    base = dict(a="a", b="b", c="o", M=m, N=n, K=k)

    def fused(bm, bn, bk, warps, stages):
        return [Launch(k_linear_gelu, (n // bn, m // bm), dict(base, bias="bias", BM=bm, BN=bn, BK=bk), warps, stages)]
    tensors = {"a": ((m, k), BF16, "normal"), "b": ((n, k), BF16, "normal"), "bias": ((n,), F32, "normal"), "o": ((m, n), BF16, "zero"), "t": ((m, n), F32, "zero")}
    Task("linear_gelu", tensors, ["o"], lambda t: {"o": torch.nn.functional.gelu(t["a"].float() @ t["b"].float().t() + t["bias"])}, 0.6, {
        "good": fused(128, 128, 64, 8, 3), "tile64": fused(64, 64, 64, 4, 3), "tile32": fused(32, 32, 32, 2, 2), "tile16": fused(16, 16, 16, 1, 1), "no_pipeline": fused(64, 64, 32, 4, 1),
        "spill": fused(256, 256, 32, 4, 2),
        "unfused": [Launch(k_linear, (n // 128, m // 128), dict(base, c="t", BM=128, BN=128, BK=64), 8), Launch(k_bias_gelu, (m * n // 1024,), dict(x="t", bias="bias", o="o", cols=n, B=1024))],
    })


@triton.jit
def k_attention(q, k, v, o, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = tl.program_id(1) * S * D
    x = tl.load(q + base + m[:, None] * D + d[None, :])
    high = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        s = tl.dot(x, tl.load(k + base + n[None, :] * D + d[:, None])) * scale
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(high - new)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(tl.float16), tl.load(v + base + n[:, None] * D + d[None, :]))
        high = new
    tl.store(o + base + m[:, None] * D + d[None, :], acc / total[:, None])


@triton.jit
def k_attention_twice(q, k, v, o, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = tl.program_id(1) * S * D
    x = tl.load(q + base + m[:, None] * D + d[None, :])
    high = tl.full([BM], -float("inf"), tl.float32)
    for start in range(0, S, BN):
        s = tl.dot(x, tl.load(k + base + (start + tl.arange(0, BN))[None, :] * D + d[:, None])) * scale
        high = tl.maximum(high, tl.max(s, 1))
    total = tl.zeros([BM], tl.float32)
    for start in range(0, S, BN):
        s = tl.dot(x, tl.load(k + base + (start + tl.arange(0, BN))[None, :] * D + d[:, None])) * scale
        total += tl.sum(tl.exp2(s - high[:, None]), 1)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        s = tl.dot(x, tl.load(k + base + n[None, :] * D + d[:, None])) * scale
        acc += tl.dot(tl.exp2(s - high[:, None]).to(tl.float16), tl.load(v + base + n[:, None] * D + d[None, :]))
    tl.store(o + base + m[:, None] * D + d[None, :], acc / total[:, None])


@triton.jit
def k_scores(q, k, s, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    base = tl.program_id(2) * S * D
    y = tl.dot(tl.load(q + base + m[:, None] * D + d[None, :]), tl.load(k + base + n[None, :] * D + d[:, None])) * scale
    tl.store(s + tl.program_id(2) * S * S + m[:, None] * S + n[None, :], y)


@triton.jit
def k_softmax2(s, p, S, B: tl.constexpr):
    at = tl.program_id(0) * S + tl.arange(0, B)
    v = tl.load(s + at)
    e = tl.exp2(v - tl.max(v, 0))
    tl.store(p + at, e / tl.sum(e, 0))


@triton.jit
def k_weighted(p, v, o, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        acc += tl.dot(tl.load(p + tl.program_id(1) * S * S + m[:, None] * S + n[None, :]), tl.load(v + tl.program_id(1) * S * D + n[:, None] * D + d[None, :]))
    tl.store(o + tl.program_id(1) * S * D + m[:, None] * D + d[None, :], acc)


def attention_task():
    heads, s, d = 16, 1024, 64
    scale = 1.4426950408889634 / d**0.5
    base = dict(q="q", k="k", v="v", o="o", S=s, scale=scale, D=d)

    def flash(bm, bn, warps, stages=3, kernel=k_attention):
        return [Launch(kernel, (s // bm, heads), dict(base, BM=bm, BN=bn), warps, stages)]
    tensors = {name: ((heads, s, d), F16, "normal") for name in "qkv"}
    tensors.update(o=((heads, s, d), F16, "zero"), s=((heads, s, s), F32, "zero"), p=((heads, s, s), F16, "zero"))
    Task("attention", tensors, ["o"], lambda t: {"o": torch.softmax(t["q"].float() @ t["k"].float().transpose(1, 2) / d**0.5, -1) @ t["v"].float()}, 5e-3, {
        "good": flash(64, 64, 4), "tile128": flash(128, 64, 8), "tile16": flash(16, 16, 1), "narrow": flash(64, 16, 4), "no_pipeline": flash(64, 64, 4, 1), "spill": flash(256, 128, 4, 2),
        "twice": flash(64, 64, 4, 3, k_attention_twice),
        "unfused": [Launch(k_scores, (s // 64, s // 64, heads), dict(q="q", k="k", s="s", S=s, scale=scale, D=d, BM=64, BN=64)),
                    Launch(k_softmax2, (heads * s,), dict(s="s", p="p", S=s, B=s)), Launch(k_weighted, (s // 64, heads), dict(p="p", v="v", o="o", S=s, D=d, BM=64, BN=64))],
    })


def make_tasks():
    for make in (add_task, gelu_task, swiglu_task, dropout_task, softmax_task, layernorm_task, rmsnorm_task, row_sum_task, col_sum_task, cumsum_task, xent_task, transpose_task, blur_task,
                 embed_task, histogram_task, rope_task, matmul_tasks, linear_task, attention_task):
        make()
    return TASKS
