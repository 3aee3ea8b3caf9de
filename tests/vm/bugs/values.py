"""Arithmetic that goes wrong and reaches memory: overflow in addresses, division by zero, asserts.
Where it reaches nothing, it is no error."""
import torch
import triton
import triton.language as tl
from planted import case, f32, i32, zeros


@triton.jit
def row_offset_in_32_bits(x, o, stride, first, B: tl.constexpr):
    r = first + tl.program_id(0)
    base = r * stride   # BUG index-overflow
    tl.store(o + tl.arange(0, B), tl.load(x + base + tl.arange(0, B)))


@triton.jit
def row_offset_in_64_bits(x, o, stride, first, B: tl.constexpr):
    r = (first + tl.program_id(0)).to(tl.int64)
    base = (r - first) * stride
    tl.store(o + tl.arange(0, B), tl.load(x + base + tl.arange(0, B)))


@triton.jit
def wraps_into_the_buffer(x, o, n, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    base = n * stride   # BUG index-overflow
    tl.store(o + i, tl.load(x + base + i))


@triton.jit
def block_of_rows_times_stride(x, o, stride, M, B: tl.constexpr):
    r = tl.arange(0, B)
    p = x + (r + M)[:, None] * stride + tl.arange(0, 4)[None, :]   # BUG index-overflow
    tl.store(o + r, tl.sum(tl.load(p), 1))


@triton.jit
def masked_rows_times_stride(x, o, stride, M, B: tl.constexpr):
    r = tl.arange(0, B)
    p = x + (r * 8 * stride)[:, None] + tl.arange(0, 4)[None, :]
    v = tl.load(p, mask=(r < M)[:, None], other=0.0)
    tl.store(o + r, tl.sum(v, 1))


@triton.jit
def gathered_row_times_stride(x, idx, o, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    r = tl.load(idx + i)
    at = r * stride   # BUG index-overflow
    tl.store(o + i, tl.load(x + at))


@triton.jit
def gathered_row_widened(x, idx, o, stride, size, B: tl.constexpr):
    i = tl.arange(0, B)
    r = tl.load(idx + i).to(tl.int64)
    at = r * stride
    tl.store(o + i, tl.load(x + at, mask=at < size, other=0.0))


@triton.jit
def widened_too_late(x, o, stride, first, B: tl.constexpr):
    base = (first * stride).to(tl.int64)   # BUG index-overflow
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + base + i))


@triton.jit
def sum_of_offsets(x, o, a, b, B: tl.constexpr):
    i = tl.arange(0, B)
    at = a + b + i   # BUG index-overflow
    tl.store(o + i, tl.load(x + at))


@triton.jit
def byte_index(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(idx + i) * tl.full((B,), 2, tl.int8)   # BUG index-overflow
    tl.store(o + i, tl.load(x + j + 128))


@triton.jit
def byte_index_widened(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(idx + i).to(tl.int32) * 2
    tl.store(o + i, tl.load(x + j))


@triton.jit
def shifted_out(x, o, k, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (i + 1) << k   # BUG index-overflow
    tl.store(o + i, tl.load(x + at))


@triton.jit
def cut_to_32_bits(x, o, far, B: tl.constexpr):
    i = tl.arange(0, B)
    at = far.to(tl.int32)   # BUG index-overflow
    tl.store(o + i, tl.load(x + at + i))


@triton.jit
def loop_carried_offset(x, o, step, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i
    acc = tl.zeros((B,), tl.float32)
    for k in range(0, 4):
        acc += tl.load(x + at, mask=(i >= 0) & (k == 3), other=0.0)
        at = at + step   # BUG index-overflow
    tl.store(o + i, acc)


@triton.jit
def loop_carried_small(x, o, step, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i
    acc = tl.zeros((B,), tl.float32)
    for _ in range(0, 4):
        acc += tl.load(x + at)
        at = at + step
    tl.store(o + i, acc)


@triton.jit
def atomic_at_a_wrapped_offset(o, row, stride):
    at = row * stride   # BUG index-overflow
    tl.atomic_add(o + at, 1.0)


@triton.jit
def store_at_a_wrapped_offset(o, row, stride, B: tl.constexpr):
    at = row * stride + tl.arange(0, B)   # BUG index-overflow
    tl.store(o + at, 1.0)


@triton.jit
def hash_as_index(x, o, seed, n, B: tl.constexpr):
    i = tl.arange(0, B)
    h = (i + seed) * 1103515245 + 12345
    h = (h ^ (h >> 7)) * 668265263
    tl.store(o + i, tl.load(x + (h & 15)))


@triton.jit
def random_numbers(o, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.rand(seed, i))


@triton.jit
def overflow_as_a_value(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) * 65536)


@triton.jit
def overflow_not_taken(x, o, big, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.where(i < n, i, i * big)
    tl.store(o + i, tl.load(x + at, mask=i < n, other=0.0))


@triton.jit
def unsigned_offsets(x, o, far, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (i.to(tl.uint32) + far).to(tl.int64) - 3000000000
    tl.store(o + i, tl.load(x + at))


@triton.jit
def unsigned_below_zero(x, o, one, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (i.to(tl.uint32) - one).to(tl.int64)   # BUG index-overflow
    tl.store(o + i, tl.load(x + (at & 31)) + tl.load(x + at % 8))


@triton.jit
def quotient_stored(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    q = tl.load(x + i, mask=i < n, other=0) // tl.load(y + i, mask=i < n, other=0)   # BUG division-by-zero
    tl.store(o + i, q, mask=i < n)


@triton.jit
def quotient_masked(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    q = tl.load(x + i, mask=i < n, other=0) // tl.load(y + i, mask=i < n, other=0)
    tl.store(o + i, q, mask=i < n)


@triton.jit
def quotient_selected(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    d = tl.load(y + i)
    tl.store(o + i, tl.where(d == 0, 0, tl.load(x + i) // d))


@triton.jit
def quotient_selected_wrongly(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    d = tl.load(y + i)
    q = tl.load(x + i) // d   # BUG division-by-zero
    tl.store(o + i, tl.where(d == 1, 0, q))


@triton.jit
def remainder_as_index(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    j = i % tl.load(y + i)   # BUG division-by-zero
    tl.store(o + i, tl.load(x + j))


@triton.jit
def quotient_summed(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    q = tl.load(x + i) // tl.load(y + i)   # BUG division-by-zero
    tl.store(o, tl.sum(q.to(tl.float32), 0))


@triton.jit
def quotient_summed_selected(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    d = tl.load(y + i)
    q = tl.where(d != 0, tl.load(x + i) // d, 0)
    tl.store(o, tl.sum(q.to(tl.float32), 0))


@triton.jit
def scalar_divisor(x, o, groups):
    g = tl.program_id(0) // groups   # BUG division-by-zero
    tl.store(o + tl.program_id(0), tl.load(x + g))


@triton.jit
def quotient_not_used(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    q = tl.load(x + i) // tl.load(y + i)
    tl.store(o + i, tl.load(x + i), mask=q > -100)


@triton.jit
def asserts_wrongly(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=-1.0)
    tl.device_assert(v > 0, "all are positive")   # BUG assert
    tl.store(o + i, v, mask=i < n)


@triton.jit
def asserts_masked(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=-1.0)
    tl.device_assert(v > 0, "all are positive", mask=i < n)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def asserts_on_programs(o, limit):
    tl.device_assert(tl.program_id(0) < limit, "too many programs")   # BUG assert
    tl.store(o + tl.program_id(0), 1.0)


@triton.jit
def softmax(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + r * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def layer_norm(x, w, b, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + r * n + i, mask=m, other=0.0)
    mean = tl.sum(v, 0) / n
    d = tl.where(m, v - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(d * d, 0) / n + 1e-5)
    tl.store(o + r * n + i, d * rstd * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.jit
def matmul_grouped(a, b, c, M, N, K, B: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, B), tl.cdiv(N, B)
    width = G * nn
    group = pid // width
    size = min(nm - group * G, G)
    pm = group * G + (pid % width) % size
    pn = (pid % width) // size
    rm = (pm * B + tl.arange(0, B)) % M
    rn = (pn * B + tl.arange(0, B)) % N
    k = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, B):
        x = tl.load(a + rm[:, None] * K + (k0 + k)[None, :], mask=(k0 + k)[None, :] < K, other=0.0)
        y = tl.load(b + (k0 + k)[:, None] * N + rn[None, :], mask=(k0 + k)[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    om = pm * B + tl.arange(0, B)
    on = pn * B + tl.arange(0, B)
    tl.store(c + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def matmul_persistent(a, b, c, M, N, K, B: tl.constexpr, P: tl.constexpr):
    tiles = tl.cdiv(M, B) * tl.cdiv(N, B)
    for t in range(tl.program_id(0), tiles, P):
        om = t // tl.cdiv(N, B) * B + tl.arange(0, B)
        on = t % tl.cdiv(N, B) * B + tl.arange(0, B)
        acc = tl.zeros((B, B), tl.float32)
        for k0 in range(0, K, B):
            k = k0 + tl.arange(0, B)
            x = tl.load(a + om[:, None] * K + k[None, :], mask=(om[:, None] < M) & (k[None, :] < K), other=0.0)
            y = tl.load(b + k[:, None] * N + on[None, :], mask=(k[:, None] < K) & (on[None, :] < N), other=0.0)
            acc = tl.dot(x, y, acc)
        tl.store(c + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def embedding(table, idx, o, n, D: tl.constexpr):
    i = tl.program_id(0)
    row = tl.load(idx + i).to(tl.int64)
    d = tl.arange(0, D)
    tl.store(o + i * D + d, tl.load(table + row * D + d))


@triton.jit
def cumulative_sum(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    carry = 0.0
    for k in range(0, n, B):
        v = tl.load(x + k + i, mask=k + i < n, other=0.0)
        tl.store(o + k + i, tl.cumsum(v, 0) + carry, mask=k + i < n)
        carry += tl.sum(v, 0)


@triton.jit
def rotary(x, o, cos, sin, H: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, H)
    a = tl.load(x + r * 2 * H + i)
    b = tl.load(x + r * 2 * H + H + i)
    c, s = tl.load(cos + i), tl.load(sin + i)
    tl.store(o + r * 2 * H + i, a * c - b * s)
    tl.store(o + r * 2 * H + H + i, a * s + b * c)


@triton.jit
def early_return(x, o, n, B: tl.constexpr):
    if tl.program_id(0) * B >= n:
        return
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def pointer_table(table, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = o + tl.program_id(0) * B
    q = tl.where(i < n, p + i, p)
    tl.store(q, i.to(tl.float32), mask=i < n)


BIG = 1 << 16
B = 16
case(row_offset_in_32_bits, 2, dict(x=f32(64), o=zeros(B), stride=BIG, first=40000, B=B), empty=("o",))
case(row_offset_in_64_bits, 1, dict(x=f32(64), o=zeros(B), stride=BIG, first=40000, B=B), empty=("o",))
case(wraps_into_the_buffer, 1, dict(x=f32(64), o=zeros(B), n=BIG, stride=BIG, B=B), empty=("o",))
case(block_of_rows_times_stride, 1, dict(x=f32(64), o=zeros(B), stride=BIG, M=BIG, B=B), empty=("o",))
case(masked_rows_times_stride, 1, dict(x=f32(64), o=zeros(B), stride=1 << 26, M=1, B=B), empty=("o",))
case(gathered_row_times_stride, 1,
     dict(x=f32(64), idx=torch.arange(B, dtype=torch.int32) * BIG, o=zeros(B), stride=BIG, B=B), empty=("o",))
case(gathered_row_widened, 1,
     dict(x=f32(64), idx=torch.arange(B, dtype=torch.int32) * BIG, o=zeros(B), stride=BIG, size=64, B=B), empty=("o",))
case(widened_too_late, 1, dict(x=f32(64), o=zeros(B), stride=BIG, first=BIG, B=B), empty=("o",))
case(sum_of_offsets, 1, dict(x=f32(64), o=zeros(B), a=2**31 - 8, b=2**31 - 8, B=B), empty=("o",))
case(byte_index, 1, dict(x=f32(256), idx=torch.arange(60, 60 + B).to(torch.int8), o=zeros(B), B=B), empty=("o",))
case(byte_index_widened, 1, dict(x=f32(256), idx=torch.arange(60, 60 + B).to(torch.int8), o=zeros(B), B=B),
     empty=("o",))
case(shifted_out, 1, dict(x=f32(64), o=zeros(B), k=30, B=B), empty=("o",))
case(cut_to_32_bits, 1, dict(x=f32(64), o=zeros(B), far=1 << 33, B=B), empty=("o",))
case(loop_carried_offset, 1, dict(x=f32(64), o=zeros(B), step=1 << 30, B=B), empty=("o",))
case(loop_carried_small, 1, dict(x=f32(64), o=zeros(B), step=16, B=B), empty=("o",))
case(atomic_at_a_wrapped_offset, 1, dict(o=zeros(4), row=BIG, stride=BIG))
case(store_at_a_wrapped_offset, 1, dict(o=zeros(B), row=BIG, stride=BIG, B=B), empty=("o",))
case(hash_as_index, 1, dict(x=f32(16), o=zeros(B), seed=123456789, n=16, B=B), empty=("o",))
case(random_numbers, 1, dict(o=zeros(B), seed=42, B=B), empty=("o",))
case(overflow_as_a_value, 1, dict(x=torch.arange(B, dtype=torch.int32) * BIG, o=zeros(B, dtype=torch.int32), B=B),
     empty=("o",))
case(overflow_not_taken, 1, dict(x=f32(64), o=zeros(B), big=1 << 30, n=9, B=B), empty=("o",))
case(unsigned_offsets, 1, dict(x=f32(64), o=zeros(B), far=3000000000, B=B), empty=("o",))
case(unsigned_below_zero, 1, dict(x=f32(64), o=zeros(B), one=1, B=B), empty=("o",))
y = torch.arange(B, dtype=torch.int32) % 5
for k in (quotient_stored, quotient_masked):
    divisors = i32(1, 2, 3, 0 if k is quotient_stored else 4, 5, 6, 7, 8, 9, 10)
    case(k, 1, dict(x=i32(*range(10)), y=divisors, o=zeros(10, dtype=torch.int32), n=10, B=B), empty=("o",))
for k in (quotient_selected, quotient_selected_wrongly, quotient_not_used):
    case(k, 1, dict(x=i32(*range(B)), y=y, o=zeros(B, dtype=torch.int32), B=B), empty=("o",))
case(remainder_as_index, 1, dict(x=f32(16), y=y, o=zeros(B), B=B), empty=("o",))
for k in (quotient_summed, quotient_summed_selected):
    case(k, 1, dict(x=i32(*range(B)), y=y, o=zeros(1), B=B), empty=("o",))
case(scalar_divisor, 2, dict(x=f32(4), o=zeros(2), groups=0), empty=("o",))
for k in (asserts_wrongly, asserts_masked):
    case(k, 1, dict(x=f32(10), o=zeros(10), n=10, B=B), empty=("o",))
case(asserts_on_programs, 4, dict(o=zeros(4), limit=3), empty=("o",))
case(softmax, 5, dict(x=f32(5, 13), o=zeros(5, 13), n=13, B=B), empty=("o",))
case(layer_norm, 5, dict(x=f32(5, 13), w=f32(13), b=f32(13), o=zeros(5, 13), n=13, B=B), empty=("o",))
case(matmul_grouped, 9, dict(a=f32(40, 33), b=f32(33, 37), c=zeros(40, 37), M=40, N=37, K=33, B=16, G=2), empty=("c",))
case(matmul_persistent, 4, dict(a=f32(40, 33), b=f32(33, 37), c=zeros(40, 37), M=40, N=37, K=33, B=16, P=4),
     empty=("c",))
case(embedding, 6, dict(table=f32(10, 16), idx=i32(0, 9, 9, 3, 1, 0), o=zeros(6, 16), n=6, D=16), empty=("o",))
case(cumulative_sum, 1, dict(x=f32(50), o=zeros(50), n=50, B=B), empty=("o",))
case(rotary, 4, dict(x=f32(4, 32), o=zeros(4, 32), cos=f32(16), sin=f32(16), H=16), empty=("o",))
case(early_return, 8, dict(x=f32(50), o=zeros(50), n=50, B=B), empty=("o",))
case(pointer_table, 3, dict(table=f32(4), o=zeros(3 * B), n=12, B=B), empty=("o",))
