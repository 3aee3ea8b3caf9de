"""Triton kernels of cost_tasks.py, movement and products; as in cost_row_kernels.py."""
import triton
import triton.language as tl


# ---- movement: transpose, stencil, gather, histogram, rotary ----

@triton.jit
def k_transpose(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    tl.store(o + c[:, None] * rows + r[None, :], tl.trans(tl.load(x + r[:, None] * cols + c[None, :])))


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
def k_matmul_split(a, b, c, M, N, K, PRECISION: tl.constexpr, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   BK: tl.constexpr):
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
        acc += tl.dot(tl.load(p + tl.program_id(1) * S * S + m[:, None] * S + n[None, :]),
                      tl.load(v + tl.program_id(1) * S * D + n[:, None] * D + d[None, :]))
    tl.store(o + tl.program_id(1) * S * D + m[:, None] * D + d[None, :], acc)
