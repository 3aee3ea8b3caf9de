"""Cases of control flow, calls, atomics, random numbers, scattered memory, and whole kernels as
people write them."""
import math

import numpy as np
import torch
import triton
import triton.language as tl
from vm_corpus import EPS, add

gen = torch.Generator().manual_seed(3)
F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I32 = torch.int32
randn = lambda *s, dtype=F32: torch.randn(*s, generator=gen).to(dtype)


@triton.jit
def collatz(x, o, N: tl.constexpr):
    for at in range(0, N):
        v = tl.load(x + at)
        steps = 0
        while v != 1:
            if v % 2 == 0:
                v = v // 2
            else:
                v = 3 * v + 1
            steps += 1
        tl.store(o + at, steps)


def collatz_steps(v):
    n = 0
    while v != 1:
        v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
    return n


x = torch.tensor([1, 2, 3, 7, 27, 97], dtype=I32)
add("collatz", collatz, (1,), dict(x=x, o=torch.zeros(6, dtype=I32), N=6),
    dict(o=(torch.tensor([collatz_steps(v) for v in x.tolist()], dtype=I32), None)))


@triton.jit
def fibonacci_swap(o, n, B: tl.constexpr):
    a = tl.arange(0, B)
    b = tl.arange(0, B) + 1
    for k in range(n):
        a, b = b, a + b
        if k % 3 == 2:
            a, b = b, a
    tl.store(o + tl.arange(0, B), a)
    tl.store(o + B + tl.arange(0, B), b)


def swaps(n):
    a, b = np.arange(16, dtype=np.int32), np.arange(16, dtype=np.int32) + 1
    for k in range(n):
        a, b = b, a + b
        if k % 3 == 2:
            a, b = b, a
    return torch.from_numpy(np.concatenate([a, b]))


for n in [0, 1, 7, 20]:
    add(f"fibonacci_swap_{n}", fibonacci_swap, (1,), dict(o=torch.zeros(32, dtype=I32), n=n, B=16),
        dict(o=(swaps(n), None)))


@triton.jit
def nested_loops(x, o, rows, cols, limit, B: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    count = 0
    for r in range(pid, rows, tl.num_programs(0)):
        for c in range(0, cols, B):
            i = c + tl.arange(0, B)
            v = tl.load(x + r * cols + i, mask=i < cols, other=0.0)
            if r % 2 == 0:
                if c == 0:
                    total += v
                else:
                    total -= v
                count += 1
            else:
                total = tl.where(v > limit, total + 1.0, total)
    tl.store(o + pid * (B + 1) + tl.arange(0, B), total)
    tl.store(o + pid * (B + 1) + B, count.to(tl.float32))


def nested(x, rows, cols, limit, programs, B=16):
    out = np.zeros((programs, B + 1), np.float32)
    for pid in range(programs):
        for r in range(pid, rows, programs):
            for c in range(0, cols, B):
                v = np.zeros(B, np.float32)
                part = x[r, c:c + B].numpy()
                v[:len(part)] = part
                if r % 2 == 0:
                    out[pid, :B] += v if c == 0 else -v
                    out[pid, B] += 1
                else:
                    out[pid, :B] += v > limit
    return torch.from_numpy(out)


x = torch.randint(-5, 5, (7, 41), generator=gen).to(F32)
add("nested_loops", nested_loops, (3,), dict(x=x, o=torch.zeros(3, 17), rows=7, cols=41, limit=1.0, B=16),
    dict(o=(nested(x, 7, 41, 1.0, 3), None)))


@triton.jit
def early_return(x, o, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    v = tl.load(x + pid)
    if v < 0:
        tl.store(o + pid, -1.0)
        return
    tl.store(o + pid, v * 2)


x = torch.tensor([1.0, -2.0, 3.0, -4.0, 5.0, 6.0])
add("early_return", early_return, (6,), dict(x=x, o=torch.full((6,), 9.0), n=5),
    dict(o=(torch.tensor([2.0, -1, 6, -1, 10, 9]), None)), interpret=False)


@triton.jit(noinline=True)
def polynomial(a, b, n):
    r = a
    for _ in range(n):
        r = r * b + 1
    return r, r % 7


@triton.jit(noinline=True)
def absolute(a):
    if a < 0:
        return -a
    else:
        return a


@triton.jit
def calls(x, o, n):
    pid = tl.program_id(0)
    v = tl.load(x + pid)
    p, q = polynomial(v, pid + 1, n)
    s, _ = polynomial(q, 2, 3)
    tl.store(o + pid * 2, p + s)
    tl.store(o + pid * 2 + 1, absolute(v - 3))


def called(a, b, n):
    r = np.int32(a)
    with np.errstate(over="ignore"):
        for _ in range(n):
            r = np.int32(np.int64(r) * b + 1 & 0xffffffff if (np.int64(r) * b + 1 & 0xffffffff) < 2**31
                         else (np.int64(r) * b + 1 & 0xffffffff) - 2**32)
    return int(r), int(math.fmod(int(r), 7))


x = torch.tensor([3, -5, 2, 100], dtype=I32)
want = []
for pid, v in enumerate(x.tolist()):
    p, q = called(v, pid + 1, 5)
    s, _ = called(q, 2, 3)
    want += [p + s, abs(v - 3)]
add("calls", calls, (4,), dict(x=x, o=torch.zeros(8, dtype=I32), n=5), dict(o=(torch.tensor(want, dtype=I32), None)),
    interpret=False)


@triton.jit
def grid3(o, X, Y, Z):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(o + (x * Y + y) * Z + z, x * 100 + y * 10 + z + tl.num_programs(0) * 1000 + tl.num_programs(1) * 10000
             + tl.num_programs(2) * 100000)


want = torch.tensor([[[x * 100 + y * 10 + z + 243000 + 0 for z in range(2)] for y in range(4)] for x in range(3)],
                    dtype=I32)
add("grid3", grid3, (3, 4, 2), dict(o=torch.zeros(3, 4, 2, dtype=I32), X=3, Y=4, Z=2), dict(o=(want, None)))


# ---- atomics ----

@triton.jit
def atomics(x, total, extremes, bits, old, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m, other=0)
    tl.atomic_add(total + v % 4, v, mask=m)
    tl.atomic_max(extremes, tl.max(v, 0))
    tl.atomic_min(extremes + 1, tl.min(tl.where(m, v, 1000), 0))
    tl.atomic_and(bits + tl.zeros_like(i), v | 0xf0, mask=m)
    tl.atomic_or(bits + 1 + tl.zeros_like(i), v, mask=m)
    tl.atomic_xor(bits + 2 + tl.zeros_like(i), v, mask=m)
    tl.atomic_xchg(bits + 3, v.sum(0))
    o = tl.atomic_cas(old, tl.program_id(0), tl.program_id(0) + 1)
    tl.store(old + 1 + tl.program_id(0), o)


x = torch.randint(0, 256, (100,), generator=gen).to(I32)
total = [int(x[x % 4 == k].sum()) for k in range(4)]
b = x.numpy()
add("atomics", atomics, (4,), dict(x=x, total=torch.zeros(4, dtype=I32), extremes=torch.tensor([-5, 5000], dtype=I32),
                                   bits=torch.tensor([-1, 0, 0, 0], dtype=I32), old=torch.zeros(5, dtype=I32), n=100,
                                   B=32),
    dict(total=(torch.tensor(total, dtype=I32), None),
         extremes=(torch.tensor([int(x.max()), int(x.min())], dtype=I32), None),
         bits=(torch.tensor([int(np.bitwise_and.reduce(b | 0xf0)), int(np.bitwise_or.reduce(b)),
                             int(np.bitwise_xor.reduce(b)), int(b[96:].sum())], dtype=I32),
               None),
         old=(torch.tensor([4, 0, 1, 2, 3], dtype=I32), None)), interpret=False)


@triton.jit
def atomic_float(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + i % 3, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


for dtype in [F32, F64, F16]:
    x = (torch.randint(-8, 8, (70,), generator=gen) / 8).to(dtype)
    want = torch.stack([x[k::3].double().sum() for k in range(3)])
    add(f"atomic_add_{str(dtype)[6:]}", atomic_float, (3,), dict(x=x, o=torch.zeros(3, dtype=dtype), n=70, B=32),
        dict(o=(want.to(dtype), None)))


# ---- random numbers: Philox4x32-10 computed here on Python integers ----

@triton.jit
def random_numbers(u, f, i4, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(u + i, tl.randint(seed, i))
    tl.store(f + i, tl.rand(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(i4 + i, a ^ b ^ c ^ d)


def philox(seed, offset):
    c, k = [offset, 0, 0, 0], [seed & 0xffffffff, seed >> 32 & 0xffffffff]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xffffffff, (a >> 32) ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


signed = lambda v: v - (1 << 32) if v >> 31 else v
blocks = [philox(1234, i) for i in range(64)]
uniform = lambda v: np.float32((-v - 1 if v < 0 else v)) * np.float32(4.6566127342e-10)
add("random_numbers", random_numbers, (1,),
    dict(u=torch.zeros(64, dtype=I32), f=torch.zeros(64), i4=torch.zeros(64, dtype=I32), seed=1234, B=64),
    dict(u=(torch.tensor([signed(c[0]) for c in blocks], dtype=I32), None),
         f=(torch.tensor([float(uniform(signed(c[0]))) for c in blocks]), None),
         i4=(torch.tensor([signed(c[0] ^ c[1] ^ c[2] ^ c[3]) for c in blocks], dtype=I32), None)))


@triton.jit
def dropout(x, o, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(o + i, tl.where(tl.rand(seed, i) > p, v / (1 - p), 0.0), mask=m)


x = randn(150)
keep = torch.tensor([float(uniform(signed(philox(99, i)[0]))) > 0.3 for i in range(150)])
p = np.float32(0.3)
add("dropout", dropout, (3,), dict(x=x, o=torch.zeros(150), n=150, p=0.3, seed=99, B=64),
    dict(o=(torch.where(keep, x / torch.tensor(np.float32(1) - p), 0.0), None)))


# ---- scattered memory ----

@triton.jit
def embedding(table, ids, o, dim, B: tl.constexpr):
    row = tl.load(ids + tl.program_id(0))
    i = tl.arange(0, B)
    tl.store(o + tl.program_id(0) * dim + i, tl.load(table + row * dim + i, mask=i < dim), mask=i < dim)


@triton.jit
def gather_rows(x, idx, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    k = tl.load(idx + i, mask=m, other=0)
    v = tl.load(x + k, mask=m & (k >= 0), other=-7.0)
    tl.store(o + n - 1 - i, v, mask=m)


table, ids = randn(20, 24), torch.tensor([3, 19, 0, 3], dtype=torch.int64)
add("embedding", embedding, (4,), dict(table=table, ids=ids, o=torch.zeros(4, 24), dim=24, B=32),
    dict(o=(table[ids], None)))
x, idx = randn(50), torch.randint(-3, 50, (75,), generator=gen).to(I32)
want = torch.where(idx >= 0, x[idx.long().clamp(min=0)], -7.0).flip(0)
add("gather_rows", gather_rows, (3,), dict(x=x, idx=idx, o=torch.zeros(75), n=75, B=32), dict(o=(want, None)))


@triton.jit
def strided(x, o, n, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + i * stride, mask=m, other=0.0)
    r = tl.load(x + (n - 1 - i) * stride, mask=m, other=0.0)
    e = tl.load(x + i * stride, mask=i % 2 == 0, other=5.0)
    tl.store(o + i * 2, v + r, mask=m)
    tl.store(o + i * 2 + 1, e, mask=i < n)


x = randn(300)
n, s = 40, 4
want = torch.zeros(80)
v = x[0:n * s:s]
want[0::2] = v + v.flip(0)
want[1::2] = torch.where(torch.arange(n) % 2 == 0, v, 5.0)
add("strided", strided, (1,), dict(x=x, o=torch.zeros(80), n=n, stride=s, B=64), dict(o=(want, None)))


# ---- 64-bit offsets, unsigned comparisons, wrapping index arithmetic ----

@triton.jit
def index_arithmetic(o, big, n, B: tl.constexpr):
    i = tl.arange(0, B)
    w = i * 100000 + 2147480000      # wraps in 32 bits
    tl.store(o + i, w)
    u = (i - 5).to(tl.uint32)
    tl.store(o + B + i, (u > 100).to(tl.int32))
    q = (i.to(tl.int64) * big) >> 20
    tl.store(o + 2 * B + i, q.to(tl.int32))
    tl.store(o + 3 * B + i, (i - 7) // 3)
    tl.store(o + 4 * B + i, (i - 7) % 3)
    tl.store(o + 5 * B + i, tl.where((i >= 3) & (i < n) | (i == 0), i, -i))
    tl.store(o + 6 * B + i, ((n - i) * 2 <= i).to(tl.int32))


i = np.arange(32)
w = ((i * 100000 + 2147480000 + 2**31) % 2**32 - 2**31).astype(np.int32)
trunc = np.trunc((i - 7) / 3).astype(np.int32)
want = np.concatenate([w, (((i - 5) % 2**32) > 100), ((i.astype(np.int64) * 5000000000) >> 20) & 0xffffffff, trunc,
                       i - 7 - 3 * trunc, np.where((i >= 3) & (i < 20) | (i == 0), i, -i), ((20 - i) * 2 <= i)])
add("index_arithmetic", index_arithmetic, (1,), dict(o=torch.zeros(7 * 32, dtype=I32), big=5000000000, n=20, B=32),
    dict(o=(torch.from_numpy(want.astype(np.int64)).to(I32), None)), interpret=False)


# ---- whole kernels ----

@triton.jit
def attention(q, k, v, o, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1) * n * D
    d = tl.arange(0, D)
    x = tl.load(q + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    # The softmax over keys goes block by block: what was summed fades when the largest value grows.
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = (tl.program_id(0) + 1) * BM if CAUSAL else n
    for start in range(0, last, BN):
        cols = start + tl.arange(0, BN)
        y = tl.load(k + head + cols[None, :] * D + d[:, None], mask=cols[None, :] < n, other=0.0)
        s = tl.dot(x, y, input_precision="ieee") * scale
        keep = cols[None, :] < n
        if CAUSAL:
            keep = keep & (rows[:, None] >= cols[None, :])
        s = tl.where(keep, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        fade = tl.exp(top - new)
        total = total * fade + tl.sum(p, 1)
        z = tl.load(v + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        acc = acc * fade[:, None] + tl.dot(p, z, input_precision="ieee")
        top = new
    tl.store(o + head + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < n)


for n, causal in [(32, False), (50, False), (50, True), (64, True)]:
    q, k, v = (randn(2, n, 16) for _ in range(3))
    s = (q.double() @ k.double().transpose(1, 2)) / 4
    if causal:
        s = s.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    want = torch.softmax(s, -1) @ v.double()
    # scores: 18 eps |q||k|/4 each, magnified once through exp; sums of n terms of |v|
    slack = EPS[F32] * ((q.double().abs() @ k.double().abs().transpose(1, 2)).max() * 18 / 4 * 4 + n
                        + 20) * v.double().abs().max()
    add(f"attention_{n}{'_causal' * causal}", attention, (math.ceil(n / 16), 2),
        dict(q=q, k=k, v=v, o=torch.zeros(2, n, 16), n=n, scale=0.25, D=16, BM=16, BN=16, CAUSAL=causal),
        dict(o=(want, float(slack))), interpret_slack=2.0)


@triton.jit
def cross_entropy(logits, target, loss, cols, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(logits + row * cols + i, mask=i < cols, other=-float("inf"))
    top = tl.max(v, 0)
    t = tl.load(target + row)
    tl.store(loss + row, tl.log(tl.sum(tl.exp(v - top), 0)) + top - tl.load(logits + row * cols + t))


x, t = randn(6, 50), torch.randint(0, 50, (6,), generator=gen)
want = torch.nn.functional.cross_entropy(x.double(), t, reduction="none")
add("cross_entropy", cross_entropy, (6,), dict(logits=x, target=t, loss=torch.zeros(6), cols=50, B=64),
    dict(loss=(want, 40 * EPS[F32] * (want.abs() + 4))), interpret_slack=2.0)


@triton.jit
def rope(x, cos, sin, o, half, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < half
    a = tl.load(x + row * 2 * half + i, mask=m)
    b = tl.load(x + row * 2 * half + half + i, mask=m)
    c = tl.load(cos + row * half + i, mask=m)
    s = tl.load(sin + row * half + i, mask=m)
    tl.store(o + row * 2 * half + i, a * c - b * s, mask=m)
    tl.store(o + row * 2 * half + half + i, b * c + a * s, mask=m)


x, angle = randn(5, 24), torch.rand(5, 12, generator=gen)
a, b, c, s = x[:, :12], x[:, 12:], angle.cos(), angle.sin()
add("rope", rope, (5,), dict(x=x, cos=c, sin=s, o=torch.zeros(5, 24), half=12, B=16),
    dict(o=(torch.cat([a * c - b * s, b * c + a * s], 1), None)))


@triton.jit
def conv2d(x, w, o, H, W, KH: tl.constexpr, KW: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    OW = W - KW + 1
    OH = H - KH + 1
    r, c = i // OW, i % OW
    acc = tl.zeros((B,), tl.float32)
    for dy in tl.static_range(KH):
        for dx in tl.static_range(KW):
            acc += tl.load(x + (r + dy) * W + c + dx, mask=i < OH * OW, other=0.0) * tl.load(w + dy * KW + dx)
    tl.store(o + i, acc, mask=i < OH * OW)


x, w = randn(13, 17), randn(3, 3)
want = torch.nn.functional.conv2d(x.double()[None, None], w.double()[None, None])[0, 0]
bound = torch.nn.functional.conv2d(x.double().abs()[None, None], w.double().abs()[None, None])[0, 0]
add("conv2d", conv2d, (3,), dict(x=x, w=w, o=torch.zeros(11, 15), H=13, W=17, KH=3, KW=3, B=64),
    dict(o=(want, 10 * EPS[F32] * bound)), interpret_slack=2.0)


@triton.jit
def classify(v):
    if v > 1:
        r = v * 2
    else:
        r = v - 1
    return r


@triton.jit
def map_elementwise(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.map_elementwise(classify, tl.load(x + i)))


x = randn(32)
add("map_elementwise", map_elementwise, (1,), dict(x=x, o=torch.zeros(32), B=32),
    dict(o=(torch.where(x > 1, x * 2, x - 1), None)), interpret=False)


@triton.jit
def of_pair(x0, x1, y0, y1):
    return x0 * y0, x1 + y1, y0 > 0, y1 > 1


@triton.jit
def classify_pair(x0, x1, y0, y1):
    if y1 > 0:
        a, b = x0 - y0, x1 - 2 * y1
    else:
        a, b = x0, -x1
    return a, b, a > 0, b > 1


@triton.jit
def map_packed(x, y, o, p, B: tl.constexpr, CONTROL: tl.constexpr):
    at = tl.arange(0, 4)[:, None] * B + tl.arange(0, B)[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    if CONTROL:
        r, is_set = tl.map_elementwise(classify_pair, a, b, pack=2)
    else:
        r, is_set = tl.map_elementwise(of_pair, a, b, pack=2)
    tl.store(o + at, r)
    tl.store(p + at, is_set)


x, y = randn(4, 16), randn(4, 16)
for control in (False, True):
    x0, x1, y0, y1 = x[:, ::2].double(), x[:, 1::2].double(), y[:, ::2].double(), y[:, 1::2].double()
    first, second = ((torch.where(y1 > 0, x0 - y0, x0), torch.where(y1 > 0, x1 - 2 * y1, -x1)) if control
                     else (x0 * y0, x1 + y1))
    sets = (first > 0, second > 1) if control else (y0 > 0, y1 > 1)
    add(f"map_packed {control}", map_packed, (1,),
        dict(x=x, y=y, o=torch.zeros(4, 16), p=torch.zeros(4, 16, dtype=torch.int32), B=16, CONTROL=control),
        dict(o=(torch.stack((first, second), 2).view(4, 16), None), p=(torch.stack(sets, 2).view(4, 16).int(), 0)),
        interpret=False)
