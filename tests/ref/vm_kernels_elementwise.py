"""Element-wise cases: every operation over the types it takes, odd sizes with partial last blocks,
casts between all types."""
import itertools
import math

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from vm_corpus import EPS, TINY, add, ulps

np.seterr(all="ignore")
gen = torch.Generator().manual_seed(1)
F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
BLOCK = 64
SIZES = [1, 63, 200]
short = lambda d: str(d).removeprefix("torch.").replace("float", "f").replace("bf", "bf")


def grid(n):
    return ((n + BLOCK - 1) // BLOCK,)


def floats(n, dtype, scale=3.0):
    x = torch.randn(n, generator=gen, dtype=F64) * scale
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 65504.0, 1e-40], dtype=F64)
    if n >= 60:
        x[7:7 + len(special)] = special
    return x.to(dtype)


def ints(n, dtype):
    info = torch.iinfo(dtype)
    x = np.random.RandomState(n).randint(0, 256, size=(n, 8), dtype=np.uint8)
    v = torch.from_numpy(x[:, :dtype.itemsize].copy()).view(dtype).flatten()
    edge = [info.min, info.max, 0, 1, info.max - 1]
    if n >= 60:
        v[:len(edge)] = torch.tensor(edge, dtype=dtype)
        v[20:30] = torch.tensor(list(range(10)), dtype=dtype)
    return v


@triton.jit
def binary(x, y, o, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(y + i, mask=m)
    # OP is known when the kernel is compiled: each one is a kernel of its own.
    if OP == "add": r = a + b
    elif OP == "sub": r = a - b
    elif OP == "mul": r = a * b
    elif OP == "div": r = a / b
    elif OP == "floordiv": r = a // b
    elif OP == "mod": r = a % b
    elif OP == "maximum": r = tl.maximum(a, b)
    elif OP == "minimum": r = tl.minimum(a, b)
    elif OP == "maximum_nan": r = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum_nan": r = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "and": r = a & b
    elif OP == "or": r = a | b
    elif OP == "xor": r = a ^ b
    elif OP == "shl": r = a << (b & 7)
    elif OP == "shr": r = a >> (b & 7)
    elif OP == "eq": r = a == b
    elif OP == "ne": r = a != b
    elif OP == "lt": r = a < b
    elif OP == "le": r = a <= b
    elif OP == "gt": r = a > b
    elif OP == "ge": r = a >= b
    elif OP == "umulhi": r = tl.umulhi(a, b)
    elif OP == "where": r = tl.where(a > b, a, b)
    elif OP == "fma": r = tl.fma(a, b, a)
    elif OP == "clamp": r = tl.clamp(a, -1.0, 1.5)
    elif OP == "div_rn": r = tl.div_rn(a, b)
    elif OP == "fdiv": r = tl.fdiv(a, b)
    elif OP == "cdiv": r = tl.cdiv(a, b)
    elif OP == "pow": r = libdevice.pow(a, b)
    elif OP == "atan2": r = libdevice.atan2(a, b)
    elif OP == "hypot": r = libdevice.hypot(a, b)
    elif OP == "fmod": r = libdevice.fmod(a, b)
    elif OP == "copysign": r = libdevice.copysign(a, b)
    elif OP == "fdim": r = libdevice.fdim(a, b)
    elif OP == "nextafter": r = libdevice.nextafter(a, b)
    tl.store(o + i, r, mask=m)


@triton.jit
def unary(x, o, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m)
    # As in binary, each OP is a kernel of its own.
    if OP == "neg": r = -a
    elif OP == "abs": r = tl.abs(a)
    elif OP == "exp": r = tl.exp(a)
    elif OP == "exp2": r = tl.exp2(a)
    elif OP == "log": r = tl.log(a)
    elif OP == "log2": r = tl.log2(a)
    elif OP == "sin": r = tl.sin(a)
    elif OP == "cos": r = tl.cos(a)
    elif OP == "sqrt": r = tl.sqrt(a)
    elif OP == "sqrt_rn": r = tl.sqrt_rn(a)
    elif OP == "rsqrt": r = tl.rsqrt(a)
    elif OP == "erf": r = tl.erf(a)
    elif OP == "floor": r = tl.floor(a)
    elif OP == "ceil": r = tl.ceil(a)
    elif OP == "invert": r = ~a
    elif OP == "not": r = a == 0
    elif OP == "tanh": r = libdevice.tanh(a)
    elif OP == "log1p": r = libdevice.log1p(a)
    elif OP == "expm1": r = libdevice.expm1(a)
    elif OP == "log10": r = libdevice.log10(a)
    elif OP == "exp10": r = libdevice.exp10(a)
    elif OP == "tan": r = libdevice.tan(a)
    elif OP == "sinh": r = libdevice.sinh(a)
    elif OP == "cosh": r = libdevice.cosh(a)
    elif OP == "asin": r = libdevice.asin(a)
    elif OP == "acos": r = libdevice.acos(a)
    elif OP == "atan": r = libdevice.atan(a)
    elif OP == "asinh": r = libdevice.asinh(a)
    elif OP == "acosh": r = libdevice.acosh(a)
    elif OP == "atanh": r = libdevice.atanh(a)
    elif OP == "erfc": r = libdevice.erfc(a)
    elif OP == "erfinv": r = libdevice.erfinv(a)
    elif OP == "cbrt": r = libdevice.cbrt(a)
    elif OP == "lgamma": r = libdevice.lgamma(a)
    elif OP == "tgamma": r = libdevice.tgamma(a)
    elif OP == "trunc": r = libdevice.trunc(a)
    elif OP == "rint": r = libdevice.rint(a)
    elif OP == "round": r = libdevice.round(a)
    elif OP == "isnan": r = libdevice.isnan(a).to(tl.int32)
    elif OP == "isinf": r = libdevice.isinf(a).to(tl.int32)
    elif OP == "signbit": r = libdevice.signbit(a).to(tl.int32)
    elif OP == "popc": r = libdevice.popc(a)
    elif OP == "clz": r = libdevice.clz(a)
    elif OP == "brev": r = libdevice.brev(a)
    tl.store(o + i, r, mask=m)


@triton.jit
def cast(x, o, n, TO: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m).to(TO), mask=m)


def case_binary(op, x, y, out_dtype, expected, tolerance=None, **kw):
    o = torch.zeros(x.numel(), dtype=out_dtype)
    add(f"binary_{op}_{short(x.dtype)}_{x.numel()}", binary, grid(x.numel()),
        dict(x=x, y=y, o=o, n=x.numel(), OP=op, BLOCK=BLOCK), dict(o=(expected, tolerance)), **kw)


def case_unary(op, x, out_dtype, expected, tolerance=None, **kw):
    o = torch.zeros(x.numel(), dtype=out_dtype)
    add(f"unary_{op}_{short(x.dtype)}_{x.numel()}", unary, grid(x.numel()),
        dict(x=x, o=o, n=x.numel(), OP=op, BLOCK=BLOCK), dict(o=(expected, tolerance)), **kw)


# ---- floats: one correctly rounded operation each, so bit-equal. bf16 and fp16 results are those
# of f32 rounded once. ----

def nan_ignoring(f):
    return lambda a, b: torch.where(a.isnan(), b, torch.where(b.isnan(), a, f(a, b)))


FLOAT_BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "maximum": nan_ignoring(torch.maximum),
    "minimum": nan_ignoring(torch.minimum),
    "maximum_nan": torch.maximum, "minimum_nan": torch.minimum, "where": lambda a, b: torch.where(a > b, a, b),
}
for dtype, n in itertools.product([F32, F64, F16, BF16], SIZES):
    x, y = floats(n, dtype), floats(n, dtype).roll(3)
    interpret = dtype != BF16
    wide = (lambda t: t.float()) if dtype in (F16, BF16) else (lambda t: t)
    for op, f in FLOAT_BINARY.items():
        # the interpreter's own NaN rule differs
        case_binary(op, x, y, dtype, f(wide(x), wide(y)).to(dtype), interpret=interpret and "imum" not in op)
    for op, f in {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt,
                  "ge": torch.ge}.items():
        case_binary(op, x, y, torch.int8, f(x, y).to(torch.int8), interpret=interpret)
    case_unary("neg", x, dtype, 0 - x, interpret=interpret)   # Triton writes -x as 0 - x
    case_unary("abs", x, dtype, x.abs(), interpret=interpret)
for dtype, n in itertools.product([F32, F64], SIZES):
    x, y = floats(n, dtype), floats(n, dtype).roll(3)
    case_binary("div", x, y, dtype, x / y)
    pairs = [(np.longdouble(a), np.longdouble(b)) for a, b in zip(x.tolist(), y.tolist())]
    fma = torch.from_numpy(np.array([np.nan if np.isnan(a) or np.isnan(b) else float(a * b + a) for a, b in pairs]))
    case_binary("fma", x, y, dtype, fma,
                # the interpreter rounds twice
                ulps(torch.nan_to_num(x.double() * y.double() + x.double(), 0, 0, 0), dtype, 0.51), interpret=False)
    case_binary("clamp", x, y, dtype, torch.where(x.isnan(), -1.0, x.clamp(-1.0, 1.5)), interpret=False)
    case_binary("mod", x, y, dtype, torch.from_numpy(np.fmod(x.numpy(), y.numpy())))
    case_binary("fmod", x, y, dtype, torch.from_numpy(np.fmod(x.numpy(), y.numpy())), interpret=False)
    case_binary("copysign", x, y, dtype, torch.copysign(x, y), interpret=False)
    case_binary("nextafter", x, y, dtype, torch.nextafter(x, y), interpret=False)
    for op, f in {"floor": torch.floor, "ceil": torch.ceil,
                  "sqrt": lambda t: torch.from_numpy(np.sqrt(t.numpy()))}.items():
        case_unary(op, x, dtype, f(x))
    for op, f in {"trunc": torch.trunc, "rint": torch.round}.items():
        case_unary(op, x, dtype, f(x), interpret=False)
x, y = floats(200, F32), floats(200, F32).roll(5)
case_binary("div_rn", x, y, F32, x / y)
case_binary("fdiv", x, y, F32, x / y)
case_unary("sqrt_rn", x, F32, torch.from_numpy(np.sqrt(x.numpy())))
case_unary("round", x, F32, torch.from_numpy(np.copysign(np.floor(np.abs(x.numpy()) + 0.5), x.numpy())),
           interpret=False)
for op, f in {"isnan": torch.isnan, "isinf": torch.isinf, "signbit": torch.signbit}.items():
    case_unary(op, x, torch.int32, f(x).to(torch.int32), interpret=False)

# ---- transcendental: the exact value of the rounded input in float64, within 0.51 ulp (f32:
# computed in double and rounded once) or 2 ulp (f64). ----

MATH = {
    "exp": (torch.exp, 8, True), "exp2": (torch.exp2, 8, True), "log": (torch.log, 9, True),
    "log2": (torch.log2, 9, True), "sin": (torch.sin, 30, True),
    "cos": (torch.cos, 30, True),
    "rsqrt": (torch.rsqrt, 9, True), "erf": (torch.special.erf, 2, True), "tanh": (torch.tanh, 3, False),
    "log1p": (torch.log1p, 5, False),
    "expm1": (torch.expm1, 5, False),
    "log10": (torch.log10, 9, False), "tan": (torch.tan, 5, False), "sinh": (torch.sinh, 5, False),
    "cosh": (torch.cosh, 5, False),
    "asin": (torch.asin, 0.4, False),
    "acos": (torch.acos, 0.4, False), "atan": (torch.atan, 9, False), "asinh": (torch.asinh, 9, False),
    "acosh": (torch.acosh, 9, False),
    "atanh": (torch.atanh, 0.4, False),
    "erfc": (torch.special.erfc, 2, False), "erfinv": (torch.special.erfinv, 0.4, False),
    "lgamma": (torch.lgamma, 5, False),
    "exp10": (lambda t: torch.pow(torch.tensor(10.0, dtype=F64), t), 5, False),
    "cbrt": (lambda t: torch.from_numpy(np.cbrt(t.numpy())), 9, False),
}
for op, (f, scale, interpret) in MATH.items():
    for dtype, n in itertools.product([F32, F64], [63, 200]):
        x = floats(n, dtype, scale)
        want = f(x.double())
        near = torch.nan_to_num(want, 0, 0, 0)
        # torch's own float64 functions are good to about 2 ulp (erfinv, lgamma: 8); lgamma and log
        # near a zero lose relative accuracy in the oracle itself
        loose = {"lgamma": 64, "erfinv": 64, "exp10": 8, "sinh": 8, "asinh": 16}.get(op, 4)
        tolerance = (ulps(near, F32, 0.51) if dtype == F32
                     else ulps(near, F64, loose) + (1e-15 if op in ("lgamma", "sin", "cos", "tan") else 0))
        # the interpreter evaluates in f32 itself (NumPy: up to 4 ulp)
        case_unary(op, x, dtype, want, tolerance, interpret=interpret, interpret_slack=16.0)
def positive_difference(a, b):
    return torch.where(a.isnan() | b.isnan(), math.nan, torch.where(a > b, a - b, 0.0))


for op, f in {"pow": torch.pow, "atan2": torch.atan2, "hypot": torch.hypot, "fdim": positive_difference}.items():
    x, y = floats(200, F32), floats(200, F32).roll(5)
    if op == "pow":
        x = x.abs()
    want = f(x.double(), y.double())
    case_binary(op, x, y, F32, want.to(F32).double(), ulps(torch.nan_to_num(want, 0, 0, 0), F32, 1.01), interpret=False)

# ---- integers: exact, wrapping. ----

def python_ints(op, x, y, dtype):
    """The C semantics on Python integers: // and % truncate toward zero, shifts keep the type's
    signedness."""
    bits, signed = dtype.itemsize * 8, dtype.is_signed
    mask = (1 << bits) - 1

    def one(a, b):
        if op == "add": r = a + b
        elif op == "sub": r = a - b
        elif op == "mul": r = a * b
        elif op == "floordiv": r = (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
        elif op == "mod": r = a - b * ((abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)) if b else 0
        elif op == "and": r = a & b
        elif op == "or": r = a | b
        elif op == "xor": r = a ^ b
        elif op == "shl": r = a << (b & 7)
        elif op == "shr": r = a >> (b & 7)
        elif op == "maximum": r = max(a, b)
        elif op == "minimum": r = min(a, b)
        elif op == "umulhi": r = ((a & mask) * (b & mask)) >> bits
        r &= mask
        return r - (1 << bits) if signed and r >> (bits - 1) else r
    return torch.tensor([one(a, b) for a, b in zip(x.tolist(), y.tolist())], dtype=dtype)


for dtype, n in itertools.product(INTS, SIZES):
    x, y = ints(n, dtype), ints(n, dtype).roll(1)
    nonzero = torch.from_numpy(np.where(y.numpy() == 0, 1, y.numpy()).astype(y.numpy().dtype))
    for op in ["add", "sub", "mul", "and", "or", "xor", "shl", "shr", "maximum",
               "minimum"] + (["umulhi"] if dtype.itemsize >= 4 else []):
        case_binary(op, x, y, dtype, python_ints(op, x, y, dtype), interpret=op not in ("umulhi",))
    for op in ["floordiv", "mod"]:
        # NumPy's floor semantics differ for negative operands, and the interpreter inherits them
        case_binary(op, x, nonzero, dtype, python_ints(op, x, nonzero, dtype), interpret=not dtype.is_signed)
    for op, f in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                  "ge": np.greater_equal}.items():
        case_binary(op, x, y, torch.int8, torch.from_numpy(f(x.numpy(), y.numpy())).to(torch.int8))
    case_unary("invert", x, dtype, torch.from_numpy(~x.numpy()), interpret=dtype.is_signed)
    case_unary("not", x, torch.int8, (x.to(torch.int64) == 0).to(torch.int8))
    if dtype.is_signed:
        case_unary("neg", x, dtype, torch.from_numpy(-x.numpy()))
        case_unary("abs", x, dtype, torch.from_numpy(np.abs(x.numpy())))
x = ints(200, torch.int32)
case_unary("popc", x, torch.int32,
           torch.tensor([bin(v & 0xffffffff).count("1") for v in x.tolist()], dtype=torch.int32), interpret=False)
case_unary("clz", x, torch.int32,
           torch.tensor([32 - (v & 0xffffffff).bit_length() for v in x.tolist()], dtype=torch.int32), interpret=False)
case_unary("brev", x, torch.int32,
           torch.tensor([int(f"{v & 0xffffffff:032b}"[::-1], 2) for v in x.tolist()]).to(torch.int32), interpret=False)

# ---- casts between all types ----
# Values outside the target's range are undefined for float to integer and left out.

TRITON = {F32: tl.float32, F64: tl.float64, F16: tl.float16, BF16: tl.bfloat16, torch.float8_e4m3fn: tl.float8e4nv,
          torch.float8_e5m2: tl.float8e5, torch.int8: tl.int8, torch.int16: tl.int16, torch.int32: tl.int32,
          torch.int64: tl.int64, torch.uint8: tl.uint8, torch.uint16: tl.uint16, torch.uint32: tl.uint32,
          torch.uint64: tl.uint64}


def round_once(x64, dtype):
    """float64 to a narrower float with one rounding; the 8-bit formats saturate, as the hardware's
    conversion does."""
    if dtype == F64:
        return x64
    if dtype == F32:
        return x64.float()
    limit = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}.get(dtype)
    if limit:
        x64 = torch.where(x64.isnan(), x64, x64.clamp(-limit, limit))
    f = x64.numpy().astype(np.float32)
    up = np.abs(f.astype(np.float64)) > np.abs(x64.numpy())
    bits = f.view(np.uint32)
    inexact = np.isfinite(x64.numpy()) & (f.astype(np.float64) != x64.numpy())
    odd = np.where(inexact & (bits & 1 == 0), np.where(up, bits - 1, bits | 1), bits).astype(np.uint32)
    return torch.from_numpy(odd.view(np.float32)).to(dtype)


for a, b in itertools.product(TRITON, TRITON):
    n = 200
    if a.is_floating_point:
        x = floats(n, F64, 100.0)
        if not b.is_floating_point:
            info = torch.iinfo(b)
            x = torch.nan_to_num(x, 1.5, 2.5, -2.5).clamp(max(info.min, -100.0), min(info.max, 126.0))
        x = round_once(torch.nan_to_num(x, 0.0) if a.itemsize == 1 else x, a)
    else:
        x = ints(n, a)
    if a == b or (a.itemsize == 1 and a.is_floating_point and b.itemsize == 1 and b.is_floating_point):
        continue
    if (a.itemsize == 1 and a.is_floating_point and not b.is_floating_point or b.itemsize == 1 and b.is_floating_point
            and not a.is_floating_point):
        continue   # Triton converts f8 to and from floats only
    if b.is_floating_point and a.is_floating_point:
        want = round_once(x.double(), b)
    elif b.is_floating_point:
        # exact but for 64-bit integers, which are rounded once in f32 by NumPy and left out for
        # narrower floats
        ref = x.numpy().astype(np.float64)
        want = (round_once(torch.from_numpy(ref), b) if a.itemsize < 8
                else torch.from_numpy(x.numpy().astype(np.float32 if b == F32 else np.float64)).to(b))
        if a.itemsize == 8 and b in (F16, BF16):
            continue
    elif a.is_floating_point:
        want = torch.tensor([int(v) for v in x.double().tolist()]).to(b)
    else:
        want = torch.from_numpy(x.numpy().astype({torch.int8: np.int8, torch.int16: np.int16, torch.int32: np.int32,
                                                  torch.int64: np.int64, torch.uint8: np.uint8, torch.uint16: np.uint16,
                                                  torch.uint32: np.uint32, torch.uint64: np.uint64}[b]))
    has_f8 = any(t.is_floating_point and t.itemsize == 1 for t in (a, b))
    interpret = BF16 not in (a, b) and a.itemsize + b.itemsize > 2 and not has_f8
    add(f"cast_{short(a)}_{short(b)}", cast, grid(n),
        dict(x=x, o=torch.zeros(n, dtype=b), n=n, TO=TRITON[b], BLOCK=BLOCK), dict(o=(want, None)), interpret=interpret)


# ---- fused chains ----

@triton.jit
def gelu_bias(x, bias, o, n, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m, other=0.0) + tl.load(bias + i % cols, mask=m, other=0.0)
    tl.store(o + i, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=m)


@triton.jit
def silu_mul(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m).to(tl.float32)
    w = tl.load(y + i, mask=m).to(tl.float32)
    tl.store(o + i, v * tl.sigmoid(v) * w, mask=m)


@triton.jit
def relu_where(x, o, n, slope, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m, other=0.0)
    v = tl.where(v > 0, v, v * slope)
    tl.store(o + i, tl.maximum(v, -3.0), mask=m)


for n in [1, 100, 257]:
    x, bias = torch.randn(n, generator=gen), torch.randn(10, generator=gen)
    v = x.double() + bias.double()[torch.arange(n) % 10]
    want = 0.5 * v * (1 + torch.special.erf(v * 0.7071067811865476))
    # four roundings relative to |v| (sum, scale, 1 + erf whose error is absolute, product): 8 eps
    # |v|
    add(f"gelu_bias_{n}", gelu_bias, grid(n), dict(x=x, bias=bias, o=torch.zeros(n), n=n, cols=10, BLOCK=BLOCK),
        dict(o=(want, 8 * EPS[F32] * v.abs() + TINY[F32])), interpret_slack=4.0)
    want = torch.where(x > 0, x, x * torch.tensor(0.1)).clamp(min=-3.0)
    add(f"relu_where_{n}", relu_where, grid(n), dict(x=x, o=torch.zeros(n), n=n, slope=0.1, BLOCK=BLOCK),
        dict(o=(want, None)))
    for dtype in [F32, F16, BF16]:
        x, y = torch.randn(n, generator=gen).to(dtype), torch.randn(n, generator=gen).to(dtype)
        want = x.double() * torch.sigmoid(x.double()) * y.double()
        tolerance = 8 * EPS[F32] * want.abs() + (EPS[dtype] * 1.01 * want.abs() if dtype != F32 else 0) + TINY[dtype]
        add(f"silu_mul_{short(dtype)}_{n}", silu_mul, grid(n),
            dict(x=x, y=y, o=torch.zeros(n, dtype=dtype), n=n, BLOCK=BLOCK), dict(o=(want, tolerance)),
            interpret=dtype != BF16, interpret_slack=2.0)


# ---- inline assembly: the idioms that libraries write ----

@triton.jit
def asm_softplus(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.extra.cuda.gdc_wait()
    v = tl.inline_asm_elementwise(
        """{ .reg .pred big;    // above 20 the logarithm adds nothing
             setp.gt.f32 big, $1, 20.;
             @big mov.f32 $0, $1;
             @!big mul.f32 $0, $1, 1.4426950408889634;
             @!big ex2.approx.ftz.f32 $0, $0;
             @!big add.f32 $0, $0, 1.0;
             @!big lg2.approx.ftz.f32 $0, $0;
             @!big mul.f32 $0, $0, 0.6931471805599453; }""", "=r,r", [tl.load(x + i, mask=m)],
        dtype=tl.float32, is_pure=True, pack=1)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(o + i, v, mask=m)


@triton.jit
def asm_nibbles(x, lo, hi, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a, b = tl.inline_asm_elementwise(
        """{ .reg .b32 t<3>;
             mov.b32 t2, 0x64006400;
             and.b32 t0, $4, 0x0f0f0f0f; shr.b32 t1, $4, 4; and.b32 t1, t1, 0x0f0f0f0f;
             prmt.b32 $0, t0, 0x64646464, 0x4140; prmt.b32 $1, t0, 0x64646464, 0x4342;
             prmt.b32 $2, t1, 0x64646464, 0x4140; prmt.b32 $3, t1, 0x64646464, 0x4342;
             sub.f16x2 $0, $0, t2; sub.f16x2 $1, $1, t2;
             sub.f16x2 $2, $2, t2; sub.f16x2 $3, $3, t2; }""", "=r,=r,=r,=r,r",
        [tl.load(x + i, mask=m, other=0)], dtype=(tl.float16, tl.float16), is_pure=True, pack=4)
    tl.store(lo + i, a, mask=m)
    tl.store(hi + i, b, mask=m)


@triton.jit
def asm_e4m3(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.inline_asm_elementwise("cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;", "=h,r,r",
                                  [tl.load(x + i, mask=m, other=0.0)], dtype=tl.float8e4nv, is_pure=True, pack=2)
    tl.store(o + i, v, mask=m)


for n in [1, 63, 200]:
    x = torch.randn(n, generator=gen) * 12
    want = torch.where(x > 20, x.double(), torch.log1p(torch.exp(x.double())))
    add(f"asm_softplus_{n}", asm_softplus, grid(n), dict(x=x, o=torch.zeros(n), n=n, BLOCK=BLOCK),
        dict(o=(want, 8 * EPS[F32] * (1 + want.abs()) + TINY[F32])), interpret=False)
    x = torch.randint(0, 256, (n,), generator=gen, dtype=torch.uint8)
    add(f"asm_nibbles_{n}", asm_nibbles, grid(n),
        dict(x=x, lo=torch.zeros(n, dtype=F16), hi=torch.zeros(n, dtype=F16), n=n, BLOCK=BLOCK),
        dict(lo=((x & 15).to(F16), None), hi=((x >> 4).to(F16), None)), interpret=False)
    x = torch.randn(n, generator=gen) * 300
    add(f"asm_e4m3_{n}", asm_e4m3, grid(n), dict(x=x, o=torch.zeros(n, dtype=torch.float8_e4m3fn), n=n, BLOCK=BLOCK),
        dict(o=(x.clamp(-448, 448).to(torch.float8_e4m3fn), None)), interpret=False)
