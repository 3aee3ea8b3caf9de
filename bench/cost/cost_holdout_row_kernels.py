"""Triton kernels of cost_holdout.py, element by element, row by row and down columns: the same
result computed well, uncoalesced, cut too small or too large, recomputing, unfused, spilling.

Each is a specimen of how a kernel may be written and stands alone: none is shared for brevity's
sake. B, ROWS, BM and the like are elements or rows of one program; APART spreads a program's
elements over the whole tensor instead of side by side.
"""
import triton
import triton.language as tl


@triton.jit
def k_clear(o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.zeros([B], o.dtype.element_ty), mask=i < n)


# ---- element-wise ----

@triton.jit
def k_clamp_fill(x, mask, o, n, low, high, filler, B: tl.constexpr, APART: tl.constexpr):
    if APART:
        i = tl.program_id(0) + tl.arange(0, B) * tl.num_programs(0)
    else:
        i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    v = tl.where(v > high, high, tl.where(v < low, low, v)) * 1.5 + 0.25
    tl.store(o + i, tl.where(tl.load(mask + i, mask=m) != 0, filler, v), mask=m)


@triton.jit
def k_clamp_fill_loop(x, mask, o, n, low, high, filler, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        i = start + tl.arange(0, B)
        m = i < n
        v = tl.load(x + i, mask=m)
        v = tl.where(v > high, high, tl.where(v < low, low, v)) * 1.5 + 0.25
        tl.store(o + i, tl.where(tl.load(mask + i, mask=m) != 0, filler, v), mask=m)


@triton.jit
def k_clamp(x, o, n, low, high, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(o + i, tl.where(v > high, high, tl.where(v < low, low, v)), mask=i < n)


@triton.jit
def k_affine(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 1.5 + 0.25, mask=i < n)


@triton.jit
def k_fill(x, mask, o, n, filler, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.where(tl.load(mask + i, mask=m) != 0, filler, tl.load(x + i, mask=m)), mask=m)


@triton.jit
def k_adam(p, g, m, v, o, m1, v1, n, rate, beta1, beta2, fix1, fix2, eps, B: tl.constexpr, APART: tl.constexpr):
    if APART:
        i = tl.program_id(0) + tl.arange(0, B) * tl.num_programs(0)
    else:
        i = tl.program_id(0) * B + tl.arange(0, B)
    ok = i < n
    d = tl.load(g + i, mask=ok)
    a = beta1 * tl.load(m + i, mask=ok) + (1 - beta1) * d
    b = beta2 * tl.load(v + i, mask=ok) + (1 - beta2) * d * d
    tl.store(m1 + i, a, mask=ok)
    tl.store(v1 + i, b, mask=ok)
    tl.store(o + i, tl.load(p + i, mask=ok) - rate * (a / fix1) / (tl.sqrt(b / fix2) + eps), mask=ok)


@triton.jit
def k_adam_loop(p, g, m, v, o, m1, v1, n, rate, beta1, beta2, fix1, fix2, eps, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        i = start + tl.arange(0, B)
        ok = i < n
        d = tl.load(g + i, mask=ok)
        a = beta1 * tl.load(m + i, mask=ok) + (1 - beta1) * d
        b = beta2 * tl.load(v + i, mask=ok) + (1 - beta2) * d * d
        tl.store(m1 + i, a, mask=ok)
        tl.store(v1 + i, b, mask=ok)
        tl.store(o + i, tl.load(p + i, mask=ok) - rate * (a / fix1) / (tl.sqrt(b / fix2) + eps), mask=ok)


@triton.jit
def k_mix(x, g, o, n, beta, SQUARE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.load(g + i, mask=i < n)
    if SQUARE:
        d = d * d
    tl.store(o + i, beta * tl.load(x + i, mask=i < n) + (1 - beta) * d, mask=i < n)


@triton.jit
def k_adam_step(p, m1, v1, o, n, rate, fix1, fix2, eps, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    ok = i < n
    a, b = tl.load(m1 + i, mask=ok), tl.load(v1 + i, mask=ok)
    tl.store(o + i, tl.load(p + i, mask=ok) - rate * (a / fix1) / (tl.sqrt(b / fix2) + eps), mask=ok)


# ---- rows: group norm, gradients of norms and softmax, residual with norm, top-k ----

@triton.jit
def k_group_norm(x, w, b, o, eps, GROUPS: tl.constexpr, SIZE: tl.constexpr, HW: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = tl.program_id(0) * SIZE + i
    channel = tl.program_id(0) % GROUPS * (SIZE // HW) + i // HW
    v = tl.load(x + at)
    d = v - tl.sum(v, 0) / SIZE
    scale = tl.rsqrt(tl.sum(d * d, 0) / SIZE + eps)
    tl.store(o + at, d * scale * tl.load(w + channel) + tl.load(b + channel))


@triton.jit
def k_group_norm_loop(x, w, b, o, eps, GROUPS: tl.constexpr, SIZE: tl.constexpr, HW: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * SIZE
    total = tl.zeros([B], tl.float32)
    for start in range(0, SIZE, B):
        total += tl.load(x + at + start + tl.arange(0, B))
    mean = tl.sum(total, 0) / SIZE
    square = tl.zeros([B], tl.float32)
    for start in range(0, SIZE, B):
        d = tl.load(x + at + start + tl.arange(0, B)) - mean
        square += d * d
    scale = tl.rsqrt(tl.sum(square, 0) / SIZE + eps)
    for start in range(0, SIZE, B):
        i = start + tl.arange(0, B)
        channel = tl.program_id(0) % GROUPS * (SIZE // HW) + i // HW
        tl.store(o + at + i, (tl.load(x + at + i) - mean) * scale * tl.load(w + channel) + tl.load(b + channel))


@triton.jit
def k_group_norm_columns(x, w, b, o, eps, GROUPS: tl.constexpr, SIZE: tl.constexpr, HW: tl.constexpr, B: tl.constexpr):
    group = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    square = tl.zeros([B], tl.float32)
    for i in range(0, SIZE):
        v = tl.load(x + group * SIZE + i)
        total += v
        square += v * v
    mean = total / SIZE
    scale = tl.rsqrt(square / SIZE - mean * mean + eps)
    for i in range(0, SIZE):
        channel = group % GROUPS * (SIZE // HW) + i // HW
        tl.store(o + group * SIZE + i,
                 (tl.load(x + group * SIZE + i) - mean) * scale * tl.load(w + channel) + tl.load(b + channel))


@triton.jit
def k_group_stats(x, mean, scale, eps, SIZE: tl.constexpr, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    square = tl.zeros([B], tl.float32)
    for start in range(0, SIZE, B):
        v = tl.load(x + tl.program_id(0) * SIZE + start + tl.arange(0, B))
        total += v
        square += v * v
    m = tl.sum(total, 0) / SIZE
    tl.store(mean + tl.program_id(0), m)
    tl.store(scale + tl.program_id(0), tl.rsqrt(tl.sum(square, 0) / SIZE - m * m + eps))


@triton.jit
def k_group_apply(x, mean, scale, w, b, o, GROUPS: tl.constexpr, SIZE: tl.constexpr, HW: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    group = i // SIZE
    channel = group % GROUPS * (SIZE // HW) + i % SIZE // HW
    tl.store(o + i, (tl.load(x + i) - tl.load(mean + group)) * tl.load(scale + group) * tl.load(w + channel)
             + tl.load(b + channel))


@triton.jit
def k_log_softmax_grad(y, g, o, cols, ROWS: tl.constexpr, B: tl.constexpr):
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * cols + tl.arange(0, B)[None, :]
    d = tl.load(g + at).to(tl.float32)
    tl.store(o + at, d - tl.exp(tl.load(y + at).to(tl.float32)) * tl.sum(d, 1)[:, None])


@triton.jit
def k_log_softmax_grad_loop(y, g, o, cols, B: tl.constexpr):
    row = tl.program_id(0) * cols
    total = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        total += tl.load(g + row + start + tl.arange(0, B)).to(tl.float32)
    s = tl.sum(total, 0)
    for start in range(0, cols, B):
        at = row + start + tl.arange(0, B)
        tl.store(o + at, tl.load(g + at).to(tl.float32) - tl.exp(tl.load(y + at).to(tl.float32)) * s)


@triton.jit
def k_log_softmax_grad_columns(y, g, o, cols, B: tl.constexpr):
    r = (tl.program_id(0) * B + tl.arange(0, B)) * cols
    s = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        s += tl.load(g + r + c).to(tl.float32)
    for c in range(0, cols):
        tl.store(o + r + c, tl.load(g + r + c).to(tl.float32) - tl.exp(tl.load(y + r + c).to(tl.float32)) * s)


@triton.jit
def k_exp_of(y, e, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(e + i, tl.exp(tl.load(y + i).to(tl.float32)))


@triton.jit
def k_row_total(g, s, cols, B: tl.constexpr):
    tl.store(s + tl.program_id(0), tl.sum(tl.load(g + tl.program_id(0) * cols + tl.arange(0, B)).to(tl.float32), 0))


@triton.jit
def k_log_softmax_grad_join(e, g, s, o, cols, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(g + i).to(tl.float32) - tl.load(e + i) * tl.load(s + i // cols))


@triton.jit
def k_norm_grad_part(x, g, mean, scale, pw, pb, rows, cols, SPLIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    dw = tl.zeros([BR, BC], tl.float32)
    db = tl.zeros([BR, BC], tl.float32)
    for start in range(0, rows // SPLIT, BR):
        r = tl.program_id(1) * (rows // SPLIT) + start + tl.arange(0, BR)
        at = r[:, None] * cols + c[None, :]
        d = tl.load(g + at).to(tl.float32)
        dw += d * (tl.load(x + at).to(tl.float32) - tl.load(mean + r)[:, None]) * tl.load(scale + r)[:, None]
        db += d
    tl.store(pw + tl.program_id(1) * cols + c, tl.sum(dw, 0))
    tl.store(pb + tl.program_id(1) * cols + c, tl.sum(db, 0))


@triton.jit
def k_norm_grad_join(pw, pb, o, db, cols, PARTS: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    at = tl.arange(0, PARTS)[:, None] * cols + c[None, :]
    tl.store(o + c, tl.sum(tl.load(pw + at), 0))
    tl.store(db + c, tl.sum(tl.load(pb + at), 0))


@triton.jit
def k_norm_grad_atomic(x, g, mean, scale, o, db, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    at = r[:, None] * cols + c[None, :]
    d = tl.load(g + at).to(tl.float32)
    xhat = (tl.load(x + at).to(tl.float32) - tl.load(mean + r)[:, None]) * tl.load(scale + r)[:, None]
    tl.atomic_add(o + c, tl.sum(d * xhat, 0), sem="relaxed")
    tl.atomic_add(db + c, tl.sum(d, 0), sem="relaxed")


@triton.jit
def k_norm_grad_product(x, g, mean, scale, t, cols, B: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, B)
    xhat = (tl.load(x + at).to(tl.float32) - tl.load(mean + tl.program_id(0))) * tl.load(scale + tl.program_id(0))
    tl.store(t + at, tl.load(g + at).to(tl.float32) * xhat)


@triton.jit
def k_total_part(x, p, rows, cols, SPLIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros([BR, BC], tl.float32)
    for start in range(0, rows // SPLIT, BR):
        r = tl.program_id(1) * (rows // SPLIT) + start + tl.arange(0, BR)
        total += tl.load(x + r[:, None] * cols + c[None, :]).to(tl.float32)
    tl.store(p + tl.program_id(1) * cols + c, tl.sum(total, 0))


@triton.jit
def k_add_rms(x, r, w, h, o, cols, eps, ROWS: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, B)
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * cols + c[None, :]
    v = tl.load(x + at).to(tl.float32) + tl.load(r + at).to(tl.float32)
    tl.store(h + at, v)
    tl.store(o + at, v * tl.rsqrt(tl.sum(v * v, 1) / cols + eps)[:, None] * tl.load(w + c)[None, :])


@triton.jit
def k_add_rms_loop(x, r, w, h, o, cols, eps, B: tl.constexpr):
    row = tl.program_id(0) * cols
    square = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        at = row + start + tl.arange(0, B)
        v = tl.load(x + at).to(tl.float32) + tl.load(r + at).to(tl.float32)
        tl.store(h + at, v)
        square += v * v
    scale = tl.rsqrt(tl.sum(square, 0) / cols + eps)
    for start in range(0, cols, B):   # read and added up again
        c = start + tl.arange(0, B)
        v = tl.load(x + row + c).to(tl.float32) + tl.load(r + row + c).to(tl.float32)
        tl.store(o + row + c, v * scale * tl.load(w + c))


@triton.jit
def k_add_rms_columns(x, r, w, h, o, cols, eps, B: tl.constexpr):
    row = (tl.program_id(0) * B + tl.arange(0, B)) * cols
    square = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        v = tl.load(x + row + c).to(tl.float32) + tl.load(r + row + c).to(tl.float32)
        tl.store(h + row + c, v)
        square += v * v
    scale = tl.rsqrt(square / cols + eps)
    for c in range(0, cols):
        v = tl.load(x + row + c).to(tl.float32) + tl.load(r + row + c).to(tl.float32)
        tl.store(o + row + c, v * scale * tl.load(w + c))


@triton.jit
def k_sum_of_two(x, r, h, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(h + i, tl.load(x + i).to(tl.float32) + tl.load(r + i).to(tl.float32))


@triton.jit
def k_rms(h, w, o, cols, eps, B: tl.constexpr):
    c = tl.arange(0, B)
    v = tl.load(h + tl.program_id(0) * cols + c).to(tl.float32)
    tl.store(o + tl.program_id(0) * cols + c, v * tl.rsqrt(tl.sum(v * v, 0) / cols + eps) * tl.load(w + c))


@triton.jit
def k_topk(x, o, cols, K: tl.constexpr, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, B)
    v = tl.load(x + r[:, None] * cols + c[None, :])
    for j in tl.static_range(K):
        top, at = tl.max(v, 1, return_indices=True)
        tl.store(o + r * K + j, top)
        v = tl.where(c[None, :] == at[:, None], -float("inf"), v)


@triton.jit
def k_topk_sort(x, o, cols, K: tl.constexpr, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, B)
    v = tl.sort(tl.load(x + r[:, None] * cols + c[None, :]), descending=True)
    tl.store(o + r[:, None] * K + c[None, :], v, mask=(c < K)[None, :])


@triton.jit
def k_topk_columns(x, o, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.full([B], -float("inf"), tl.float32)
    b = tl.full([B], -float("inf"), tl.float32)
    c = tl.full([B], -float("inf"), tl.float32)
    d = tl.full([B], -float("inf"), tl.float32)
    for i in range(0, cols):
        v = tl.load(x + r * cols + i)
        a, v = tl.maximum(a, v), tl.minimum(a, v)
        b, v = tl.maximum(b, v), tl.minimum(b, v)
        c, v = tl.maximum(c, v), tl.minimum(c, v)
        d = tl.maximum(d, v)
    tl.store(o + r * 4, a)
    tl.store(o + r * 4 + 1, b)
    tl.store(o + r * 4 + 2, c)
    tl.store(o + r * 4 + 3, d)


@triton.jit
def k_topk_round(x, o, cols, J: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * cols + tl.arange(0, B))
    if J > 0:
        v = tl.where(v < tl.load(o + row * K + J - 1), v, -float("inf"))
    tl.store(o + row * K + J, tl.max(v, 0))


# ---- columns: prefix sums ----

@triton.jit
def k_down_walk(x, o, rows, cols, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for r in range(0, rows):
        total += tl.load(x + r * cols + c)
        tl.store(o + r * cols + c, total)


@triton.jit
def k_down_scan(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    before = tl.zeros([BC], tl.float32)
    for start in range(0, rows, BR):
        at = (start + tl.arange(0, BR))[:, None] * cols + c[None, :]
        v = tl.load(x + at)
        tl.store(o + at, tl.cumsum(v, 0) + before[None, :])
        before += tl.sum(v, 0)


@triton.jit
def k_down_join(x, s, o, rows, cols, SPLIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    part = tl.arange(0, SPLIT)[:, None]
    before = tl.sum(tl.load(s + part * cols + c[None, :], mask=part < tl.program_id(1), other=0.0), 0)
    for start in range(0, rows // SPLIT, BR):
        at = (tl.program_id(1) * (rows // SPLIT) + start + tl.arange(0, BR))[:, None] * cols + c[None, :]
        v = tl.load(x + at)
        tl.store(o + at, tl.cumsum(v, 0) + before[None, :])
        before += tl.sum(v, 0)
