"""Triton kernels of cost_holdout.py, movement and products; as in cost_holdout_row_kernels.py."""
import triton
import triton.language as tl


# ---- movement: permutation, scatter, gather of bags, pooling, resizing, convolution ----

@triton.jit
def k_permute(x, o, C, HW, BC: tl.constexpr, BH: tl.constexpr):
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    h = tl.program_id(2) * BH + tl.arange(0, BH)
    image = tl.program_id(0) * C * HW
    m = h < HW
    v = tl.load(x + image + c[:, None] * HW + h[None, :], mask=m[None, :])
    tl.store(o + image + h[:, None] * C + c[None, :], tl.trans(v), mask=m[:, None])


@triton.jit
def k_permute_gather(x, o, C, HW, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i // (C * HW) * (C * HW) + i % C * HW + i // C % HW))


@triton.jit
def k_permute_scatter(x, o, C, HW, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i // (C * HW) * (C * HW) + i % HW * C + i // HW % C, tl.load(x + i))


@triton.jit
def k_index_add(x, ids, o, dim, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * B + tl.arange(0, B)
    to = tl.load(ids + r)
    tl.atomic_add(o + to[:, None] * dim + d[None, :], tl.load(x + r[:, None] * dim + d[None, :]), sem="relaxed")


@triton.jit
def k_index_add_columns(x, ids, o, dim, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    to = tl.load(ids + r)
    for d in range(0, dim):
        tl.atomic_add(o + to * dim + d, tl.load(x + r * dim + d), sem="relaxed")


@triton.jit
def k_index_add_product(x, ids, o, rows, dim, BM: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    """A matrix of zeros and ones times x."""
    bins = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    part = rows // tl.num_programs(1)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(tl.program_id(1) * part, tl.program_id(1) * part + part, BK):
        r = start + tl.arange(0, BK)
        hot = (tl.load(ids + r)[None, :] == bins[:, None]).to(tl.float32)
        acc = tl.dot(hot, tl.load(x + r[:, None] * dim + d[None, :]), acc, input_precision="tf32")
    tl.atomic_add(o + bins[:, None] * dim + d[None, :], acc, sem="relaxed")


@triton.jit
def k_bag(ids, w, table, o, dim, L: tl.constexpr, B: tl.constexpr):
    j = tl.program_id(0) * L + tl.arange(0, L)
    d = tl.program_id(1) * B + tl.arange(0, B)
    rows = tl.load(table + tl.load(ids + j)[:, None] * dim + d[None, :]).to(tl.float32)
    tl.store(o + tl.program_id(0) * dim + d, tl.sum(rows * tl.load(w + j)[:, None], 0))


@triton.jit
def k_bag_loop(ids, w, table, o, dim, L: tl.constexpr, BAGS: tl.constexpr, B: tl.constexpr):
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    d = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros([BAGS, B], tl.float32)
    for j in range(0, L):
        row = tl.load(ids + bag * L + j)
        total += tl.load(w + bag * L + j)[:, None] * tl.load(table + row[:, None] * dim + d[None, :]).to(tl.float32)
    tl.store(o + bag[:, None] * dim + d[None, :], total)


@triton.jit
def k_bag_columns(ids, w, table, o, dim, L: tl.constexpr, PART: tl.constexpr, B: tl.constexpr):
    bag = tl.program_id(0) * B + tl.arange(0, B)
    for d in range(tl.program_id(1) * PART, tl.program_id(1) * PART + PART):
        total = tl.zeros([B], tl.float32)
        for j in range(0, L):
            total += tl.load(w + bag * L + j) * tl.load(table + tl.load(ids + bag * L + j) * dim + d).to(tl.float32)
        tl.store(o + bag * dim + d, total)


@triton.jit
def k_bag_gather(ids, table, t, dim, ROWS: tl.constexpr, B: tl.constexpr):
    j = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, B)
    tl.store(t + j[:, None] * dim + d[None, :], tl.load(table + tl.load(ids + j)[:, None] * dim + d[None, :]))


@triton.jit
def k_bag_sum(t, w, o, dim, L: tl.constexpr, B: tl.constexpr):
    j = tl.program_id(0) * L + tl.arange(0, L)
    d = tl.arange(0, B)
    tl.store(o + tl.program_id(0) * dim + d,
             tl.sum(tl.load(t + j[:, None] * dim + d[None, :]).to(tl.float32) * tl.load(w + j)[:, None], 0))


@triton.jit
def k_pool(x, o, H, W, OH, OW, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    top = tl.full([BR, BC], -float("inf"), tl.float32)
    for dr in tl.static_range(-1, 2):
        for dc in tl.static_range(-1, 2):
            rr, cc = r[:, None] * 2 + dr, c[None, :] * 2 + dc
            v = tl.load(x + (tl.program_id(0) * H + rr) * W + cc, mask=(rr >= 0) & (rr < H) & (cc >= 0) & (cc < W),
                        other=-float("inf"))
            top = tl.maximum(top, v)
    tl.store(o + (tl.program_id(0) * OH + r[:, None]) * OW + c[None, :], top,
             mask=(r < OH)[:, None] & (c < OW)[None, :])


@triton.jit
def k_pool_flat(x, o, H, W, OH, OW, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    r, c, plane = i // OW % OH, i % OW, i // (OW * OH)
    top = tl.full([B], -float("inf"), tl.float32)
    for dr in tl.static_range(-1, 2):
        for dc in tl.static_range(-1, 2):
            rr, cc = r * 2 + dr, c * 2 + dc
            v = tl.load(x + (plane * H + rr) * W + cc, mask=(rr >= 0) & (rr < H) & (cc >= 0) & (cc < W),
                        other=-float("inf"))
            top = tl.maximum(top, v)
    tl.store(o + i, top)


@triton.jit
def k_pool_planes(x, o, H, W, OH, OW, B: tl.constexpr):
    plane = tl.program_id(0) * B + tl.arange(0, B)
    r = tl.program_id(1)
    for c in range(0, OW):
        top = tl.full([B], -float("inf"), tl.float32)
        for dr in tl.static_range(-1, 2):
            for dc in tl.static_range(-1, 2):
                rr, cc = r * 2 + dr, c * 2 + dc
                v = tl.load(x + (plane * H + rr) * W + cc, mask=(rr >= 0) & (rr < H) & (cc >= 0) & (cc < W),
                            other=-float("inf"))
                top = tl.maximum(top, v)
        tl.store(o + (plane * OH + r) * OW + c, top)


@triton.jit
def k_pool_across(x, t, W, OW, ROWS: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BC)
    top = tl.full([ROWS, BC], -float("inf"), tl.float32)
    for dc in tl.static_range(-1, 2):
        cc = c[None, :] * 2 + dc
        top = tl.maximum(top, tl.load(x + r[:, None] * W + cc, mask=(cc >= 0) & (cc < W), other=-float("inf")))
    tl.store(t + r[:, None] * OW + c[None, :], top, mask=(c < OW)[None, :])


@triton.jit
def k_pool_down(t, o, H, OH, OW, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    top = tl.full([BR, BC], -float("inf"), tl.float32)
    for dr in tl.static_range(-1, 2):
        rr = r[:, None] * 2 + dr
        top = tl.maximum(top, tl.load(t + (tl.program_id(0) * H + rr) * OW + c[None, :],
                                      mask=(rr >= 0) & (rr < H) & (c < OW)[None, :], other=-float("inf")))
    tl.store(o + (tl.program_id(0) * OH + r[:, None]) * OW + c[None, :], top,
             mask=(r < OH)[:, None] & (c < OW)[None, :])


@triton.jit
def k_resize(x, o, H, W, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    fr, fc = tl.maximum(r * 0.5 - 0.25, 0.0), tl.maximum(c * 0.5 - 0.25, 0.0)
    r0, c0 = fr.to(tl.int32), fc.to(tl.int32)
    r1, c1 = tl.minimum(r0 + 1, H - 1), tl.minimum(c0 + 1, W - 1)
    ar, ac = (fr - r0)[:, None], (fc - c0)[None, :]
    p = x + tl.program_id(0) * H * W
    high = tl.load(p + r0[:, None] * W + c0[None, :]) * (1 - ac) + tl.load(p + r0[:, None] * W + c1[None, :]) * ac
    low = tl.load(p + r1[:, None] * W + c0[None, :]) * (1 - ac) + tl.load(p + r1[:, None] * W + c1[None, :]) * ac
    tl.store(o + (tl.program_id(0) * 2 * H + r[:, None]) * 2 * W + c[None, :], high * (1 - ar) + low * ar)


@triton.jit
def k_resize_flat(x, o, H, W, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    c, r, p = i % (2 * W), i // (2 * W) % (2 * H), i // (4 * H * W) * H * W
    fr, fc = tl.maximum(r * 0.5 - 0.25, 0.0), tl.maximum(c * 0.5 - 0.25, 0.0)
    r0, c0 = fr.to(tl.int32), fc.to(tl.int32)
    r1, c1 = tl.minimum(r0 + 1, H - 1), tl.minimum(c0 + 1, W - 1)
    ar, ac = fr - r0, fc - c0
    high = tl.load(x + p + r0 * W + c0) * (1 - ac) + tl.load(x + p + r0 * W + c1) * ac
    low = tl.load(x + p + r1 * W + c0) * (1 - ac) + tl.load(x + p + r1 * W + c1) * ac
    tl.store(o + i, high * (1 - ar) + low * ar)


@triton.jit
def k_resize_planes(x, o, H, W, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    r = tl.program_id(1)
    fr = tl.maximum(r * 0.5 - 0.25, 0.0)
    r0 = fr.to(tl.int32)
    r1 = tl.minimum(r0 + 1, H - 1)
    ar = fr - r0
    for c in range(0, 2 * W):
        fc = tl.maximum(c * 0.5 - 0.25, 0.0)
        c0 = fc.to(tl.int32)
        c1 = tl.minimum(c0 + 1, W - 1)
        ac = fc - c0
        high = tl.load(x + (p * H + r0) * W + c0) * (1 - ac) + tl.load(x + (p * H + r0) * W + c1) * ac
        low = tl.load(x + (p * H + r1) * W + c0) * (1 - ac) + tl.load(x + (p * H + r1) * W + c1) * ac
        tl.store(o + (p * 2 * H + r) * 2 * W + c, high * (1 - ar) + low * ar)


@triton.jit
def k_resize_across(x, t, W, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    c, r = i % (2 * W), i // (2 * W)
    fc = tl.maximum(c * 0.5 - 0.25, 0.0)
    c0 = fc.to(tl.int32)
    ac = fc - c0
    tl.store(t + i, tl.load(x + r * W + c0) * (1 - ac) + tl.load(x + r * W + tl.minimum(c0 + 1, W - 1)) * ac)


@triton.jit
def k_resize_down(t, o, H, W, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    c, r, p = i % (2 * W), i // (2 * W) % (2 * H), i // (4 * H * W) * H
    fr = tl.maximum(r * 0.5 - 0.25, 0.0)
    r0 = fr.to(tl.int32)
    ar = fr - r0
    tl.store(o + i, tl.load(t + (p + r0) * 2 * W + c) * (1 - ar)
             + tl.load(t + (p + tl.minimum(r0 + 1, H - 1)) * 2 * W + c) * ar)


@triton.jit
def k_conv(x, w, bias, o, C, T, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    t = tl.program_id(1) * B + tl.arange(0, B)
    channel = r % C
    v = tl.zeros([ROWS, B], tl.float32) + tl.load(bias + channel)[:, None]
    for j in tl.static_range(4):
        at = t[None, :] + (j - 3)
        v += tl.load(w + channel * 4 + j)[:, None] * tl.load(x + r[:, None] * T + at, mask=at >= 0,
                                                             other=0.0).to(tl.float32)
    tl.store(o + r[:, None] * T + t[None, :], v / (1 + tl.exp(-v)))


@triton.jit
def k_conv_tap(x, w, u, C, T, J: tl.constexpr, B: tl.constexpr):
    t = tl.program_id(1) * B + tl.arange(0, B)
    at = tl.program_id(0) * T + t
    v = tl.load(w + tl.program_id(0) % C * 4 + J) * tl.load(x + at + (J - 3), mask=t + (J - 3) >= 0,
                                                            other=0.0).to(tl.float32)
    if J > 0:
        v += tl.load(u + at)
    tl.store(u + at, v)


@triton.jit
def k_conv_silu(u, bias, o, C, T, B: tl.constexpr):
    at = tl.program_id(0) * T + tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(u + at) + tl.load(bias + tl.program_id(0) % C)
    tl.store(o + at, v / (1 + tl.exp(-v)))


# ---- products ----

@triton.jit
def k_bmm(a, b, o, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    pa = a + tl.program_id(2) * M * K + om[:, None] * K + ok[None, :]
    pb = b + tl.program_id(2) * K * N + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * N
    tl.store(o + tl.program_id(2) * M * N + om[:, None] * N + on[None, :], acc)


@triton.jit
def k_bmm_sums(a, b, o, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The products of elements and their sum written out."""
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ok = k + tl.arange(0, BK)
        left = tl.load(a + tl.program_id(2) * M * K + om[:, None] * K + ok[None, :]).to(tl.float32)
        right = tl.load(b + tl.program_id(2) * K * N + ok[:, None] * N + on[None, :]).to(tl.float32)
        acc += tl.sum(left[:, :, None] * right[None, :, :], 1)
    tl.store(o + tl.program_id(2) * M * N + om[:, None] * N + on[None, :], acc)


@triton.jit
def k_gemv(a, x, o, cols, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, B], tl.float32)
    for start in range(0, cols, B):
        c = start + tl.arange(0, B)
        total += tl.load(a + r[:, None] * cols + c[None, :]).to(tl.float32) * tl.load(x + c).to(tl.float32)[None, :]
    tl.store(o + r, tl.sum(total, 1))


@triton.jit
def k_gemv_split(a, x, o, cols, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(a + r[:, None] * cols + c[None, :]).to(tl.float32) * tl.load(x + c).to(tl.float32)[None, :]
    tl.atomic_add(o + r, tl.sum(v, 1), sem="relaxed")


@triton.jit
def k_gemv_columns(a, x, o, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for c in range(0, cols):
        total += tl.load(a + r * cols + c).to(tl.float32) * tl.load(x + c).to(tl.float32)
    tl.store(o + r, total)


@triton.jit
def k_gemv_dot(a, x, o, cols, BM: tl.constexpr, BK: tl.constexpr):
    """The vector as a matrix of 16 columns, one of them used."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.arange(0, 16)
    acc = tl.zeros([BM, 16], tl.float32)
    for start in range(0, cols, BK):
        c = start + tl.arange(0, BK)
        v = tl.load(x + c[:, None] + j[None, :] * 0, mask=(j == 0)[None, :], other=0.0)
        acc = tl.dot(tl.load(a + r[:, None] * cols + c[None, :]), v, acc)
    tl.store(o + r, tl.sum(acc, 1))


@triton.jit
def k_w8(x, w, scale, o, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ok = k + tl.arange(0, BK)
        q = tl.load(w + on[None, :] * K + ok[:, None]).to(tl.float16) - 64.0
        acc = tl.dot(tl.load(x + om[:, None] * K + ok[None, :]), q, acc)
    tl.store(o + om[:, None] * N + on[None, :], acc * tl.load(scale + on)[None, :])


@triton.jit
def k_w8_split(x, w, scale, o, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K // SPLIT, BK):
        ok = tl.program_id(2) * (K // SPLIT) + k + tl.arange(0, BK)
        q = tl.load(w + on[None, :] * K + ok[:, None]).to(tl.float16) - 64.0
        acc = tl.dot(tl.load(x + om[:, None] * K + ok[None, :]), q, acc)
    tl.atomic_add(o + om[:, None] * N + on[None, :], acc * tl.load(scale + on)[None, :], sem="relaxed")


@triton.jit
def k_w8_widen(w, t, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(t + i, tl.load(w + i).to(tl.float16) - 64.0)


@triton.jit
def k_w16(x, t, scale, o, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ok = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(x + om[:, None] * K + ok[None, :]), tl.load(t + on[None, :] * K + ok[:, None]), acc)
    tl.store(o + om[:, None] * N + on[None, :], acc * tl.load(scale + on)[None, :])


# ---- causal linear attention: o_t = scale * q_t . sum over s <= t of k_s v_s' ----

@triton.jit
def k_linear_chunks(q, k, v, o, S, scale, D: tl.constexpr, C: tl.constexpr):
    base = tl.program_id(0) * S * D
    d, i = tl.arange(0, D), tl.arange(0, C)
    state = tl.zeros([D, D], tl.float32)
    for start in range(0, S, C):
        at = base + (start + i)[:, None] * D + d[None, :]
        turned = tl.load(k + base + (start + i)[None, :] * D + d[:, None])
        x, y = tl.load(q + at), tl.load(v + at)
        s = tl.where(i[:, None] >= i[None, :], tl.dot(x, turned), 0.0)
        out = tl.dot(s.to(tl.float16), y) + tl.dot(x, state.to(tl.float16))
        tl.store(o + at, out * scale)
        state += tl.dot(turned, y)


@triton.jit
def k_linear_square(q, k, v, o, S, scale, WHOLE: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    base = tl.program_id(1) * S * D
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    x = tl.load(q + base + m[:, None] * D + d[None, :])
    acc = tl.zeros([BM, D], tl.float32)
    end = S if WHOLE else (tl.program_id(0) + 1) * BM
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        s = tl.where(m[:, None] >= n[None, :], tl.dot(x, tl.load(k + base + n[None, :] * D + d[:, None])), 0.0)
        acc += tl.dot(s.to(tl.float16), tl.load(v + base + n[:, None] * D + d[None, :]))
    tl.store(o + base + m[:, None] * D + d[None, :], acc * scale)


@triton.jit
def k_linear_state(k, v, st, S, D: tl.constexpr, C: tl.constexpr):
    base = tl.program_id(1) * S * D
    n, d = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, D)
    y = tl.dot(tl.load(k + base + n[None, :] * D + d[:, None]), tl.load(v + base + n[:, None] * D + d[None, :]))
    tl.store(st + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * D * D + d[:, None] * D + d[None, :], y)


@triton.jit
def k_linear_before(st, chunks, SIZE: tl.constexpr, B: tl.constexpr):
    """Each chunk's state becomes the sum of those before it."""
    at = tl.program_id(0) * chunks * SIZE + tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for c in range(0, chunks):
        v = tl.load(st + at + c * SIZE)
        tl.store(st + at + c * SIZE, total)
        total += v


@triton.jit
def k_linear_join(q, k, v, st, o, S, scale, D: tl.constexpr, C: tl.constexpr):
    base = tl.program_id(1) * S * D
    i, d = tl.arange(0, C), tl.arange(0, D)
    n = tl.program_id(0) * C + i
    at = base + n[:, None] * D + d[None, :]
    x = tl.load(q + at)
    state = tl.load(st + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * D * D + d[:, None] * D
                    + d[None, :])
    s = tl.where(i[:, None] >= i[None, :], tl.dot(x, tl.load(k + base + n[None, :] * D + d[:, None])), 0.0)
    tl.store(o + at, (tl.dot(s.to(tl.float16), tl.load(v + at)) + tl.dot(x, state.to(tl.float16))) * scale)


@triton.jit
def k_linear_tokens(q, k, v, o, S, scale, D: tl.constexpr):
    base = tl.program_id(0) * S * D
    d = tl.arange(0, D)
    state = tl.zeros([D, D], tl.float32)
    for t in range(0, S):
        at = base + t * D + d
        state += tl.load(k + at).to(tl.float32)[:, None] * tl.load(v + at).to(tl.float32)[None, :]
        tl.store(o + at, tl.sum(tl.load(q + at).to(tl.float32)[:, None] * state, 0) * scale)
