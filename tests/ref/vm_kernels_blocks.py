"""Cases on blocks: reductions, scans, matrix products, shapes, block pointers and descriptors."""
import itertools
import math

import numpy as np
import torch
import triton
import triton.language as tl
from vm_corpus import EPS, TINY, add

gen = torch.Generator().manual_seed(2)
F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
short = lambda d: str(d).removeprefix("torch.").replace("float", "f")
randn = lambda *s, dtype=F32: torch.randn(*s, generator=gen).to(dtype)
pow2 = lambda n: 1 << (n - 1).bit_length()


@triton.jit
def softmax(x, o, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    v = tl.load(x + row * stride + i, mask=m, other=-float("inf"))
    v = v - tl.max(v, 0)
    e = tl.exp(v)
    tl.store(o + row * stride + i, e / tl.sum(e, 0), mask=m)


@triton.jit
def layernorm(x, w, b, o, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    v = tl.load(x + row * cols + i, mask=m, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / cols
    d = tl.where(m, v - mean, 0.0)
    var = tl.sum(d * d, 0) / cols
    y = d * tl.rsqrt(var + eps) * tl.load(w + i, mask=m) + tl.load(b + i, mask=m)
    tl.store(o + row * cols + i, y.to(o.dtype.element_ty), mask=m)


@triton.jit
def rmsnorm_loop(x, w, o, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, cols, BLOCK):
        i = at + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
        acc += v * v
    scale = tl.rsqrt(tl.sum(acc, 0) / cols + eps)
    for at in range(0, cols, BLOCK):
        i = at + tl.arange(0, BLOCK)
        m = i < cols
        tl.store(o + row * cols + i, tl.load(x + row * cols + i, mask=m) * scale * tl.load(w + i, mask=m), mask=m)


for rows, cols in [(3, 1), (5, 33), (4, 128), (2, 1000)]:
    x, w, b = randn(rows, cols), randn(cols), randn(cols)
    want = torch.softmax(x.double(), 1)
    # the rounding of x - max is magnified by its size; then exp, the pairwise sum and the division
    rel = EPS[F32] * ((x.max(1, keepdim=True).values - x).double() + (x.max() - x.min()).item() + math.log2(cols + 1)
                      + 6)
    add(f"softmax_{rows}x{cols}", softmax, (rows,),
        dict(x=x, o=torch.zeros(rows, cols), cols=cols, stride=cols, BLOCK=pow2(cols)),
        dict(o=(want, rel * want + TINY[F32])), interpret_slack=8.0)
    xd = x.double()
    for dtype in [F32, F16, BF16]:
        xt = x.to(dtype).double()
        d = xt - xt.mean(1, keepdim=True)
        inv = (d.square().mean(1, keepdim=True) + 1e-5).rsqrt()
        want = d * inv * w.double() + b.double()
        # mean: log2(n) + 2 roundings of mean|x|; everything after it relative: about 12 more
        err = EPS[F32] * ((math.log2(cols + 1) + 4) * (xt.abs().mean(1, keepdim=True) + d.abs()) * inv * (1
            + d.abs() * inv) * w.double().abs() * 4 + 12 * (want - b.double()).abs() + 2 * want.abs())
        if dtype != F32:
            err = err + EPS[dtype] * 1.01 * want.abs() + TINY[dtype]
        add(f"layernorm_{short(dtype)}_{rows}x{cols}", layernorm, (rows,),
            dict(x=x.to(dtype), w=w, b=b, o=torch.zeros(rows, cols, dtype=dtype), cols=cols, eps=1e-5,
                 BLOCK=pow2(cols)), dict(o=(want, err)), interpret=dtype != BF16, interpret_slack=2.0)
    want = xd * (xd.square().mean(1, keepdim=True) + 1e-6).rsqrt() * w.double()
    add(f"rmsnorm_loop_{rows}x{cols}", rmsnorm_loop, (rows,),
        dict(x=x, w=w, o=torch.zeros(rows, cols), cols=cols, eps=1e-6, BLOCK=64),
        dict(o=(want, EPS[F32] * 30 * want.abs() + TINY[F32])), interpret_slack=2.0)


# ---- reductions along every axis ----

@triton.jit
def reduce_all(x, o, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr):
    i = (tl.arange(0, A)[:, None, None] * B + tl.arange(0, B)[None, :, None]) * C + tl.arange(0, C)[None, None, :]
    v = tl.load(x + i)
    if OP == "sum": r = tl.sum(v, AXIS)
    elif OP == "max": r = tl.max(v, AXIS)
    elif OP == "min": r = tl.min(v, AXIS)
    elif OP == "xor": r = tl.xor_sum(v, AXIS)
    elif OP == "argmax": r = tl.argmax(v, AXIS)
    elif OP == "argmin": r = tl.argmin(v, AXIS)
    elif OP == "argmax_any": r = tl.argmax(v, AXIS, tie_break_left=False)
    if AXIS == 0:
        tl.store(o + tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :], r)
    elif AXIS == 1:
        tl.store(o + tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :], r)
    else:
        tl.store(o + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :], r)


SHAPES = [(2, 8, 16), (1, 1, 64), (4, 32, 1), (16, 2, 4)]
for shape, axis, op in itertools.product(SHAPES, range(3), ["sum", "max", "min", "xor", "argmax", "argmin"]):
    out_shape = [s for d, s in enumerate(shape) if d != axis]
    for dtype in [F32, torch.int32] if op != "xor" else [torch.int32]:
        x = (torch.randint(-9, 9, shape, generator=gen)).to(dtype)
        if dtype == F32 and op == "sum":
            x = randn(*shape)
        args = dict(x=x, o=torch.zeros(out_shape, dtype=torch.int32 if "arg" in op else dtype), A=shape[0], B=shape[1],
                    C=shape[2], AXIS=axis, OP=op)
        n = x.numpy()
        tolerance = None
        if op == "sum":
            want = (torch.from_numpy(n.astype(np.float64).sum(axis)) if dtype == F32
                    else torch.from_numpy(n.sum(axis, dtype=np.int32)))
            if dtype == F32:
                tolerance = EPS[F32] * (math.log2(shape[axis])
                                        + 1) * torch.from_numpy(np.abs(n).astype(np.float64).sum(axis))
        else:
            want = torch.from_numpy({"max": lambda: n.max(axis), "min": lambda: n.min(axis),
                                     "xor": lambda: np.bitwise_xor.reduce(n, axis), "argmax": lambda: n.argmax(axis),
                                     "argmin": lambda: n.argmin(axis)}[op]())
        add(f"reduce_{op}_{short(dtype)}_{'x'.join(map(str, shape))}_axis{axis}", reduce_all, (1,), args,
            dict(o=(want, tolerance)), interpret_slack=4.0)
x = torch.randperm(512, generator=gen).to(F32).reshape(2, 16, 16)
add("reduce_argmax_any", reduce_all, (1,),
    dict(x=x, o=torch.zeros(2, 16, dtype=torch.int32), A=2, B=16, C=16, AXIS=2, OP="argmax_any"),
    dict(o=(x.argmax(2).to(torch.int32), None)))


@triton.jit
def reduce_types(x, o, N: tl.constexpr, OP: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    if OP == "sum": tl.store(o, tl.sum(v, 0))
    elif OP == "max": tl.store(o, tl.max(v, 0))
    else: tl.store(o, tl.min(v, 0))


for dtype, n in itertools.product([torch.int8, torch.int16, torch.int64, torch.uint8, torch.uint32, F64, F16, BF16],
                                  [1, 2, 64, 1024]):
    x = (torch.randint(0, 100, (n,), generator=gen).to(dtype) if not dtype.is_floating_point
         else (torch.randint(-8, 8, (n,), generator=gen) / 8).to(dtype))
    for op in ["sum", "max", "min"]:
        out = (dtype if op != "sum" or dtype.is_floating_point or dtype.itemsize >= 4
               else (torch.int32 if dtype.is_signed else torch.uint32))
        want = getattr(torch, op)(x.to(torch.int64) if not dtype.is_floating_point else x.double()).reshape(1)
        if op == "sum" and dtype == F16 and n == 1024:
            continue   # partial sums are no longer exact
        # bf16 is summed in f32
        add(f"reduce1_{op}_{short(dtype)}_{n}", reduce_types, (1,), dict(x=x, o=torch.zeros(1, dtype=out), N=n, OP=op),
            dict(o=(want.to(out), None)), interpret=dtype != BF16)


@triton.jit
def welford_combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    d = mean_b - mean_a
    n = n_a + n_b
    ratio = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + d * ratio, m2_a + m2_b + d * d * n_a * ratio, n


@triton.jit
def welford(x, mean, var, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    v = tl.load(x + row * cols + i, mask=m, other=0.0)
    a, b, c = tl.reduce((v, tl.zeros_like(v), m.to(tl.float32)), 0, welford_combine)
    tl.store(mean + row, a)
    tl.store(var + row, b / c)


x = randn(5, 100) + 3
add("welford", welford, (5,), dict(x=x, mean=torch.zeros(5), var=torch.zeros(5), cols=100, BLOCK=128),
    dict(mean=(x.double().mean(1), 60 * EPS[F32] * 3), var=(x.double().var(1, correction=0), 120 * EPS[F32] * 10)),
    interpret_slack=2.0)


@triton.jit
def if_combine(a, b):
    if a > b:
        r = a - b
    else:
        r = b + a * 0.5
    return r


@triton.jit
def reduce_with_control(x, o, s, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(o, tl.reduce(v, 0, if_combine))
    tl.store(s + tl.arange(0, N), tl.associative_scan(v, 0, if_combine))


x = torch.randint(-4, 5, (16,), generator=gen).to(F32)
acc, steps = x[0].item(), [x[0].item()]
for v in x[1:].tolist():
    acc = acc - v if acc > v else v + acc * 0.5
    steps.append(acc)
# not associative: the order here is left to right, as the interpreter's
add("reduce_with_control", reduce_with_control, (1,), dict(x=x, o=torch.zeros(1), s=torch.zeros(16), N=16),
    dict(o=(torch.tensor([acc]), None), s=(torch.tensor(steps), None)))


# ---- scans ----

@triton.jit
def scan(x, o, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    v = tl.load(x + i)
    if OP == "cumsum": r = tl.cumsum(v, AXIS, reverse=REVERSE)
    else: r = tl.cumprod(v, AXIS, reverse=REVERSE)
    tl.store(o + i, r)


def flipped(f, x, axis, reverse):
    return f(x.flip(axis), axis).flip(axis) if reverse else f(x, axis)


for (a, b), axis, reverse, dtype in itertools.product([(1, 64), (16, 8), (4, 1), (2, 256)], [0, 1], [False, True],
                                                      [F32, torch.int32]):
    x = randn(a, b) if dtype == F32 else torch.randint(-9, 9, (a, b), generator=gen).to(dtype)
    args = lambda op: dict(x=x, o=torch.zeros(a, b, dtype=dtype), A=a, B=b, AXIS=axis, REVERSE=reverse, OP=op)
    want = flipped(torch.cumsum, x.double() if dtype == F32 else x, axis, reverse)
    tolerance = (EPS[F32] * (math.log2((a, b)[axis]) + 1) * flipped(torch.cumsum, x.double().abs(), axis, reverse)
                 if dtype == F32 else None)
    add(f"cumsum_{short(dtype)}_{a}x{b}_axis{axis}{'_reverse' * reverse}", scan, (1,), args("cumsum"),
        dict(o=(want if dtype == F32 else want.to(dtype), tolerance)), interpret_slack=40.0)
    if dtype == F32:
        x = 1 + randn(a, b) * 0.1
        want = flipped(torch.cumprod, x.double(), axis, reverse)
        add(f"cumprod_{a}x{b}_axis{axis}{'_reverse' * reverse}", scan, (1,), args("cumprod"),
            dict(o=(want, EPS[F32] * (a, b)[axis] * want.abs())), interpret_slack=2.0)


@triton.jit
def linear_recurrence(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scan_pairs(a, b, o, last, N: tl.constexpr):
    i = tl.arange(0, N)
    pairs = (tl.load(a + i), tl.load(b + i))
    _, r = tl.associative_scan(pairs, 0, linear_recurrence)
    tl.store(o + i, r)
    _, r = tl.reduce(pairs, 0, linear_recurrence)   # associative, not commutative: the order must be kept
    tl.store(last, r)


for n in [2, 64, 512]:
    a, b = torch.rand(n, generator=gen) * 0.9, randn(n)
    h, want, bound, g = 0.0, [], [], 0.0
    for u, v in zip(a.tolist(), b.tolist()):
        h, g = h * u + v, g * u + abs(v)
        want.append(h)
        bound.append(g)
    add(f"scan_pairs_{n}", scan_pairs, (1,), dict(a=a, b=b, o=torch.zeros(n), last=torch.zeros(1), N=n),
        {"o": (torch.tensor(want, dtype=F64), EPS[F32] * 4 * (math.log2(n) + 1) * torch.tensor(bound, dtype=F64)),
         "last": (torch.tensor(want[-1:], dtype=F64), EPS[F32] * 4 * (math.log2(n) + 1) * bound[-1])},
     interpret_slack=8.0)


# ---- products ----

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
           OUT: tl.constexpr):
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BN)
    om = (pid // columns * BM + tl.arange(0, BM)) % M
    on = (pid % columns * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    pa = a + om[:, None] * K + ok[None, :]
    pb = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), OUT)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=ok[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=OUT)
        pa += BK
        pb += BK * N
    cm = pid // columns * BM + tl.arange(0, BM)
    cn = pid % columns * BN + tl.arange(0, BN)
    tl.store(c + cm[:, None] * N + cn[None, :], acc.to(c.dtype.element_ty), mask=(cm[:, None] < M) & (cn[None, :] < N))


def parts(x, precision):
    """What the hardware multiplies, in float64: a list of (a part, b part) indices and a function
    giving the parts of a matrix."""
    def tf32(v):
        return (v.view(torch.int32) & ~0x1fff).view(F32)

    def split(v, step, count):
        out, rest = [], v.clone()
        for _ in range(count):
            p = step(rest)
            out.append(p.double())
            rest = rest - p
        return out
    bf = lambda v: v.bfloat16().float()
    return {"tf32": lambda v: split(v, tf32, 1), "tf32x3": lambda v: split(v, tf32, 2),
            "bf16x3": lambda v: split(v, bf, 2), "bf16x6": lambda v: split(v, bf, 3)}[precision](x)


PAIRS = {"tf32": [(0, 0)], "tf32x3": [(1, 0), (0, 1), (0, 0)], "bf16x3": [(1, 0), (0, 1), (0, 0)],
         "bf16x6": [(1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)]}


def product(a, b, precision):
    if a.dtype != F32 or precision == "ieee":
        return a.double() @ b.double()
    pa, pb = parts(a, precision), parts(b, precision)
    return sum(pa[i] @ pb[j] for i, j in PAIRS[precision])


def matmul_case(name, m, n, k, dtype, precision="ieee", out=F32, store=None, blocks=(32, 32, 16), **kw):
    store = store or out
    if dtype == torch.int8:
        a, b = (torch.randint(-128, 128, s, generator=gen).to(torch.int8) for s in [(m, k), (k, n)])
        want, tolerance = (a.long() @ b.long()).to(torch.int32), None
    else:
        a, b = randn(m, k).to(dtype), randn(k, n).to(dtype)
        want = product(a, b, precision)
        # k fused multiply-adds in a row: k roundings of partial sums bounded by |a| |b|
        tolerance = (k + 2) * EPS[out if out == F64 else F32] * (a.double().abs() @ b.double().abs())
        if F16 in (out, store) or BF16 in (out, store):
            narrow = store if store != F32 else out
            tolerance = (tolerance + EPS[narrow] * 1.01 * want.abs() * (math.ceil(k / blocks[2]) if out == F16 else 1)
                         * (1 if out != F16 else 4) + TINY[narrow])
            if out == F16:
                tolerance = tolerance + EPS[F16] * (a.double().abs() @ b.double().abs())
    grid = (math.ceil(m / blocks[0]) * math.ceil(n / blocks[1]),)
    tl_type = {F32: tl.float32, F64: tl.float64, F16: tl.float16, torch.int32: tl.int32}[out]
    add(name, matmul, grid, dict(a=a, b=b, c=torch.zeros(m, n, dtype=store), M=m, N=n, K=k, BM=blocks[0], BN=blocks[1],
                                 BK=blocks[2], PRECISION=precision, OUT=tl_type), dict(c=(want, tolerance)), **kw)


for precision in ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"]:
    # the interpreter multiplies in f32 whatever the precision says
    matmul_case(f"matmul_f32_{precision}", 50, 70, 40, F32, precision, interpret=precision == "ieee",
                interpret_slack=2.0)
matmul_case("matmul_f16", 64, 64, 64, F16, interpret_slack=2.0)
matmul_case("matmul_f16_odd", 33, 17, 29, F16, store=F16, interpret_slack=2.0)
matmul_case("matmul_bf16", 40, 50, 60, BF16, store=BF16, interpret=False)
matmul_case("matmul_f16_acc16", 32, 32, 32, F16, out=F16, interpret_slack=4.0)
matmul_case("matmul_i8", 33, 40, 64, torch.int8, out=torch.int32, blocks=(32, 32, 32))
matmul_case("matmul_f64", 20, 30, 40, F64, out=F64, blocks=(16, 16, 16), interpret_slack=2.0)
matmul_case("matmul_e5m2", 32, 32, 64, torch.float8_e5m2, blocks=(32, 32, 32), interpret=False)
matmul_case("matmul_e4m3", 32, 48, 64, torch.float8_e4m3fn, blocks=(32, 32, 32), interpret=False)
matmul_case("matmul_wide", 65, 130, 70, F32, blocks=(64, 128, 32), interpret_slack=2.0)


@triton.jit
def batched_dot(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None, None] * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i[:, None, None] * N * K + k[None, :, None] * N + n[None, None, :])
    tl.store(c + i[:, None, None] * M * N + m[None, :, None] * N + n[None, None, :],
             tl.dot(x, y, input_precision="ieee"))


a, b = randn(4, 16, 32), randn(4, 32, 16)
add("batched_dot", batched_dot, (1,), dict(a=a, b=b, c=torch.zeros(4, 16, 16), B=4, M=16, N=16, K=32),
    dict(c=(a.double() @ b.double(), 34 * EPS[F32] * (a.double().abs() @ b.double().abs()))), interpret_slack=2.0)


@triton.jit
def matmul_block_ptr(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    pa = tl.make_block_ptr(a, (M, K), (K, 1), (pm * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (N, 1), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(pa, boundary_check=(0, 1), padding_option="zero"),
                     tl.load(pb, boundary_check=(0, 1), padding_option="zero"), acc, input_precision="ieee")
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(pc, acc, boundary_check=(0, 1))


@triton.jit
def matmul_descriptor(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([pm * BM, k]), db.load([k, pn * BN]), acc, input_precision="ieee")
    dc.store([pm * BM, pn * BN], acc)


for kernel, (m, n, k) in itertools.product([matmul_block_ptr, matmul_descriptor],
                                           [(32, 32, 32), (36, 44, 52), (4, 100, 8)]):
    a, b = randn(m, k), randn(k, n)
    add(f"{kernel.fn.__name__}_{m}_{n}_{k}", kernel, (math.ceil(m / 16), math.ceil(n / 32)),
        dict(a=a, b=b, c=torch.zeros(m, n), M=m, N=n, K=k, BM=16, BN=32, BK=16),
        dict(c=(a.double() @ b.double(), (k + 2) * EPS[F32] * (a.double().abs() @ b.double().abs()))),
        interpret_slack=2.0)


@triton.jit
def dot_scaled(a, sa, b, sb, q, o, p, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k, s, h = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32), tl.arange(0, K // 2)
    x, y = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
    xs, ys = tl.load(sa + m[:, None] * (K // 32) + s[None, :]), tl.load(sb + n[:, None] * (K // 32) + s[None, :])
    at = m[:, None] * N + n[None, :]
    tl.store(o + at, tl.dot_scaled(x, xs, "e4m3", y, ys, "e5m2"))
    packed = tl.load(q + h[:, None] * N + n[None, :])
    tl.store(p + at, tl.dot_scaled(x.to(tl.bfloat16), None, "bf16", packed, ys, "e2m1"))


def powers(*shape):
    return torch.randint(120, 132, shape, generator=gen).to(torch.uint8)


def times_scale(x, s):     # (lines, k) and (lines, k / 32)
    return x.double() * 2.0 ** (s.double() - 127).repeat_interleave(32, 1)


for m, n, k in [(16, 32, 64), (32, 16, 128)]:
    a, b = randn(m, k).to(torch.float8_e4m3fn), randn(k, n).to(torch.float8_e5m2)
    sa, sb, q = (powers(m, k // 32), powers(n, k // 32),
                 torch.randint(0, 256, (k // 2, n), generator=gen).to(torch.uint8))
    fours = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], dtype=F64)
    left, right = times_scale(a.float(), sa), times_scale(b.float().T, sb).T
    packed = times_scale(torch.stack([fours[(q & 15).long()], fours[(q >> 4).long()]], 1).reshape(k, n).T, sb).T
    plain = a.double()
    add(f"dot_scaled_{m}_{n}_{k}", dot_scaled, (1,),
        dict(a=a, sa=sa, b=b, sb=sb, q=q, o=torch.zeros(m, n), p=torch.zeros(m, n), M=m, N=n, K=k),
        dict(o=(left @ right, (k + 2) * EPS[F32] * (left.abs() @ right.abs())),
             p=(plain @ packed, (k + 2) * EPS[F32] * (plain.abs() @ packed.abs()))),
        interpret=False)


@triton.jit
def rows_through_descriptors(x, rows, o, total, M, N, column, B: tl.constexpr, C: tl.constexpr):
    r = tl.load(rows + tl.arange(0, B))
    v = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, C]).gather(r, column)
    tl.make_tensor_descriptor(o, [M, N], [N, 1], [1, C]).scatter(v, r, column)
    tl.make_tensor_descriptor(total, [M, N], [N, 1], [B, C]).atomic_add([4, column], v)


for column in (0, 20, 36):
    # some rows lie outside: 0 when read, nothing when written
    x, rows = randn(50, 40), torch.randperm(60, generator=gen)[:16].int()
    inside, width = rows[rows < 50].long(), min(16, 40 - column)
    o, total = torch.zeros(50, 40), torch.ones(50, 40)
    o[inside, column:column + width] = x[inside, column:column + width]
    total[4:20, column:column + width] += torch.where(rows[:, None] < 50, x[rows.clamp(max=49).long()],
                                                      0.0)[:, column:column + width]
    add(f"rows_through_descriptors_{column}", rows_through_descriptors, (1,),
        dict(x=x, rows=rows, o=torch.zeros(50, 40), total=torch.ones(50, 40), M=50, N=40, column=column, B=16, C=16),
        dict(o=(o, None), total=(total, None)), interpret=False)


# ---- shapes ----

@triton.jit
def transpose(x, o, M, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(o + n[:, None] * M + m[None, :], tl.trans(v), mask=(n[:, None] < N) & (m[None, :] < M))


for dtype in [F32, torch.int8, F64, BF16]:
    x = torch.randint(-99, 99, (37, 21), generator=gen).to(dtype)
    add(f"transpose_{short(dtype)}", transpose, (3, 2), dict(x=x, o=torch.zeros(21, 37, dtype=dtype), M=37, N=21, B=16),
        dict(o=(x.T.contiguous(), None)))


@triton.jit
def shapes(x, p, q, r, s, t, u):
    v = tl.load(x + tl.arange(0, 64))
    c = tl.reshape(v, (2, 4, 8))
    tl.store(p + tl.arange(0, 64), tl.reshape(tl.permute(c, (2, 0, 1)), (64,)))
    a, b = tl.split(tl.reshape(v, (32, 2)))
    tl.store(q + tl.arange(0, 32), a - b)
    tl.store(r + tl.arange(0, 64), tl.interleave(b, a))
    tl.store(s + tl.arange(0, 128), tl.reshape(tl.join(v, v * 2), (128,)))
    tl.store(t + tl.arange(0, 128), tl.cat(v, v + 1, can_reorder=True))
    w = tl.broadcast_to(tl.reshape(v, (1, 64, 1)), (2, 64, 2))
    tl.store(u + tl.arange(0, 256), tl.reshape(w, (256,)))


x = torch.arange(64, dtype=F32)
add("shapes", shapes, (1,), dict(x=x, p=torch.zeros(64), q=torch.zeros(32), r=torch.zeros(64), s=torch.zeros(128),
                                 t=torch.zeros(128), u=torch.zeros(256)),
    dict(p=(x.reshape(2, 4, 8).permute(2, 0, 1).flatten(), None), q=(x[0::2] - x[1::2], None),
         r=(torch.stack([x[1::2], x[0::2]], 1).flatten(), None),
         s=(torch.stack([x, 2 * x], 1).flatten(), None), t=(torch.cat([x, x + 1]), None),
         u=(x.reshape(1, 64, 1).expand(2, 64, 2).flatten(), None)))


@triton.jit
def sort_and_flip(x, o, f, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(o + tl.arange(0, N), tl.sort(v))
    tl.store(f + tl.arange(0, N), tl.flip(v, 0))


for n, dtype in [(2, F32), (64, F32), (256, torch.int32)]:
    x = torch.randint(-500, 500, (n,), generator=gen).to(dtype)
    add(f"sort_and_flip_{short(dtype)}_{n}", sort_and_flip, (1,),
        dict(x=x, o=torch.zeros(n, dtype=dtype), f=torch.zeros(n, dtype=dtype), N=n),
        dict(o=(x.sort().values, None), f=(x.flip(0), None)))


@triton.jit
def gather_histogram(x, i, g, h, N: tl.constexpr):
    v, k = tl.load(x + tl.arange(0, N)), tl.load(i + tl.arange(0, N))
    tl.store(g + tl.arange(0, N), tl.gather(v, k, 0))
    tl.store(h + tl.arange(0, 16), tl.histogram(k, 16))


x, i = randn(64), torch.randint(0, 16, (64,), generator=gen).to(torch.int32)
add("gather_histogram", gather_histogram, (1,),
    dict(x=x, i=i, g=torch.zeros(64), h=torch.zeros(16, dtype=torch.int32), N=64),
    dict(g=(x[i.long()], None), h=(torch.bincount(i, minlength=16).to(torch.int32), None)))
