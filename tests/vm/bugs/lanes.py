"""Races between the lanes of one program, and the ways in which they rightly share memory;
assumptions that hold and that do not. A bug is marked at the access that comes later when the
program runs in order."""
import triton
import triton.language as tl
from planted import case, f32, i32, zeros


@triton.jit
def lanes_swap(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i) * 2)
    tl.store(x + i, tl.load(o + (i ^ 1)))   # BUG race


@triton.jit
def lanes_swap_after_a_barrier(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i) * 2)
    tl.debug_barrier()
    tl.store(x + i, tl.load(o + (i ^ 1)))


@triton.jit
def lanes_load_their_own(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i) * 2)
    tl.store(x + i, tl.load(o + i) + 1)


@triton.jit
def fewer_lanes_than_threads(x, o, W: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(o + i, tl.load(x + i) * 2)
    tl.store(x + i, tl.load(o + i) + 1)   # BUG race


@triton.jit
def scalar_is_stored_over(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    s = tl.load(x)
    tl.store(o + i, i * s)
    tl.store(x, s + 1)   # BUG race


@triton.jit
def scalar_is_stored_over_behind_a_barrier(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    s = tl.load(x)
    tl.store(o + i, i * s)
    tl.debug_barrier()
    tl.store(x, s + 1)


@triton.jit
def scalar_is_counted_up(x, o, W: tl.constexpr):
    tl.store(x, tl.load(x) + 1)


@triton.jit
def lanes_load_a_row(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i) * 2)
    tl.store(x, tl.sum(tl.load(o + i[None, :] + tl.zeros((2, 1), tl.int32)), 1).sum(0))   # BUG race


@triton.jit
def one_address_two_values(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i // 2, tl.load(x + i))   # BUG race


@triton.jit
def one_address_one_value(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i // 2, tl.load(x + i // 2))


@triton.jit
def one_address_by_broadcast(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + tl.zeros((W,), tl.int32), tl.load(x + i))   # BUG race


@triton.jit
def overlapping_rows(x, o, W: tl.constexpr):
    r, i = tl.arange(0, 2)[:, None], tl.arange(0, W)[None, :]
    tl.store(o + r * (W // 2) + i, tl.load(x + r * W + i, mask=r < 1, other=0.0))   # BUG race


@triton.jit
def stores_twice(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, 0.0)
    tl.store(o + W - 1 - i, tl.load(x + i))   # BUG race


@triton.jit
def stores_twice_after_a_barrier(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, 0.0)
    tl.debug_barrier()
    tl.store(o + W - 1 - i, tl.load(x + i))


@triton.jit
def scalar_then_row(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o, tl.sum(tl.load(x + i), 0))
    tl.store(x + i, tl.load(x + i) / tl.load(o))   # BUG race


@triton.jit
def scalar_then_row_after_a_barrier(x, o, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o, tl.sum(tl.load(x + i), 0))
    tl.debug_barrier()
    tl.store(x + i, tl.load(x + i) / tl.load(o))


@triton.jit
def scalar_after_an_atomic_with_a_result(x, o, flags, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i))
    ticket = tl.atomic_add(flags, 1)
    tl.store(x + i, tl.load(o + W - 1 - i) + ticket)


@triton.jit
def scalar_after_an_atomic_without_one(x, o, flags, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i))
    tl.atomic_add(flags, 1)
    tl.store(x + i, tl.load(o + W - 1 - i))   # BUG race


@triton.jit
def reverses_in_place(x, W: tl.constexpr):
    i = tl.arange(0, W)
    tl.store(x + W - 1 - i, tl.load(x + i))   # BUG race


@triton.jit
def normalises_in_place(x, W: tl.constexpr):
    i = tl.arange(0, W)
    v = tl.load(x + i)
    tl.store(x + i, v - tl.sum(v, 0))


@triton.jit
def rows_in_place_where_odd(x, W: tl.constexpr, H: tl.constexpr):
    i = tl.arange(0, H)[:, None] * (2 * W) + tl.arange(0, W)[None, :]
    v = tl.load(x + i)
    tl.store(x + i, v + 1, mask=i % 3 == 1)


@triton.jit
def rows_turned_in_place_where_odd(x, W: tl.constexpr, H: tl.constexpr):
    r, c = tl.arange(0, H)[:, None], tl.arange(0, W)[None, :]
    v = tl.load(x + r * W + c)
    tl.store(x + c * H + r, v + 1, mask=(r * W + c) % 3 == 1)   # BUG race


@triton.jit
def last_program_sums(x, part, count, o, W: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, W)
    tl.store(part + pid * W + i, tl.load(x + pid * W + i))
    if tl.atomic_add(count, 1) == 3:
        s = tl.zeros((W,), tl.float32)
        for k in range(4):
            s += tl.load(part + k * W + i)   # BUG race
        tl.store(o + i, s)


@triton.jit
def last_program_sums_after_a_barrier(x, part, count, o, W: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, W)
    tl.store(part + pid * W + i, tl.load(x + pid * W + i))
    tl.debug_barrier()
    if tl.atomic_add(count, 1) == 3:
        s = tl.zeros((W,), tl.float32)
        for k in range(4):
            s += tl.load(part + k * W + i)
        tl.store(o + i, s)


@triton.jit
def assumes_what_holds(x, o, n, W: tl.constexpr):
    tl.assume(n > 0)
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i))


@triton.jit
def assumes_what_does_not(x, o, n, W: tl.constexpr):
    tl.assume(n < 0)   # BUG assert
    i = tl.arange(0, W)
    tl.store(o + i, tl.load(x + i))


W = 256
for k in (lanes_swap, lanes_swap_after_a_barrier, lanes_load_their_own, fewer_lanes_than_threads,
          scalar_is_stored_over, scalar_is_stored_over_behind_a_barrier, scalar_is_counted_up, lanes_load_a_row,
          one_address_two_values, one_address_one_value, one_address_by_broadcast, overlapping_rows, stores_twice,
          stores_twice_after_a_barrier, scalar_then_row, scalar_then_row_after_a_barrier):
    case(k, 1, dict(x=f32(2 * W), o=zeros(2 * W), W=W))
for k in (scalar_after_an_atomic_with_a_result, scalar_after_an_atomic_without_one):
    case(k, 1, dict(x=f32(W), o=zeros(W), flags=i32(0), W=W))
for k in (reverses_in_place, normalises_in_place):
    case(k, 1, dict(x=f32(W), W=W))
for k in (rows_in_place_where_odd, rows_turned_in_place_where_odd):
    case(k, 1, dict(x=f32(2 * W), W=16, H=16))
for k in (last_program_sums, last_program_sums_after_a_barrier):
    case(k, 4, dict(x=f32(4 * W), part=zeros(4 * W), count=i32(0), o=zeros(W), W=W), empty=("part",))
for k in (assumes_what_holds, assumes_what_does_not):
    case(k, 1, dict(x=f32(W), o=zeros(W), n=3, W=W))
