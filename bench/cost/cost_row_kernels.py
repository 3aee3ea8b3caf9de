"""Triton kernels of cost_tasks.py, element by element and row by row: the same result computed
well, uncoalesced, cut too small or too large, recomputing, unfused, spilling.

Each is a specimen of how a kernel may be written and stands alone: none is shared for brevity's
sake. B, ROWS, BM and the like are elements or rows of one program; APART spreads a program's
elements over the whole tensor instead of side by side.
"""
import triton
import triton.language as tl


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
    tl.store(o + tl.program_id(0),
             tl.max(tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=-float("inf")), 0))


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
    tl.store(o + tl.program_id(0),
             tl.sum(tl.load(x + tl.program_id(0) * cols + tl.arange(0, B)).to(tl.float32), 0) / cols)


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


@triton.jit
def k_row_sum(x, o, cols, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    for start in range(0, cols, B):
        total += tl.load(x + tl.program_id(0) * cols + start + tl.arange(0, B))
    tl.store(o + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def k_row_sum_atomic(x, o, cols, B: tl.constexpr):
    tl.atomic_add(o + tl.program_id(0),
                  tl.sum(tl.load(x + tl.program_id(0) * cols + tl.program_id(1) * B + tl.arange(0, B)), 0),
                  sem="relaxed")


@triton.jit
def k_row_sum_part(x, o, cols, B: tl.constexpr):
    tl.store(o + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1),
             tl.sum(tl.load(x + tl.program_id(0) * cols + tl.program_id(1) * B + tl.arange(0, B)), 0))


@triton.jit
def k_row_sum_columns(x, o, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        total += tl.load(x + r * cols + c)
    tl.store(o + r, total)


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


@triton.jit
def k_xent(x, y, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * cols + c, mask=c < cols, other=-float("inf")).to(tl.float32)
    high = tl.max(v, 0)
    tl.store(o + row, tl.log(tl.sum(tl.exp(v - high), 0))
             + high - tl.load(x + row * cols + tl.load(y + row)).to(tl.float32))


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
