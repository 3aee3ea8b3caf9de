"""Out of bounds, misaligned, read-only and uninitialised memory; masks that are missing or wrong.
The fixed kernel follows each bug where one edit mends it."""
import torch
import triton
import triton.language as tl
from planted import case, f32, i32, zeros

N = 100   # no multiple of a block


@triton.jit
def load_without_mask(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)   # BUG out-of-bounds
    tl.store(o + i, v, mask=i < n)


@triton.jit
def store_without_mask(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(o + i, v)   # BUG out-of-bounds


@triton.jit
def masked_copy(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def mask_of_less_or_equal(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i <= n)   # BUG out-of-bounds
    tl.store(o + i, v, mask=i < n)


@triton.jit
def mask_of_the_block(x, o, n, B: tl.constexpr):
    j = tl.arange(0, B)
    i = tl.program_id(0) * B + j
    v = tl.load(x + i, mask=j < n, other=0.0)   # BUG out-of-bounds
    tl.store(o + i, v, mask=i < n)


@triton.jit
def negative_neighbour(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i - 1, mask=i < n)   # BUG out-of-bounds
    tl.store(o + i, v, mask=i < n)


@triton.jit
def negative_neighbour_masked(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i - 1, mask=(i < n) & (i > 0), other=0.0)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def next_neighbour(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(x + i + 1, mask=m)   # BUG out-of-bounds
    tl.store(o + i, a + b, mask=m)


@triton.jit
def next_neighbour_masked(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    b = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(o + i, tl.load(x + i, mask=m) + b, mask=m)


@triton.jit
def gathered_index(x, idx, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(idx + i, mask=i < n, other=0)
    v = tl.load(x + j, mask=i < n)   # BUG out-of-bounds
    tl.store(o + i, v, mask=i < n)


@triton.jit
def gathered_index_checked(x, idx, o, n, size, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(idx + i, mask=i < n, other=0)
    v = tl.load(x + j, mask=(i < n) & (j >= 0) & (j < size), other=0.0)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def scattered_index(x, idx, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(idx + i, mask=i < n, other=0)
    tl.store(o + j, tl.load(x + i, mask=i < n), mask=i < n)   # BUG out-of-bounds


@triton.jit
def atomic_beyond_the_end(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    bin = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(o + bin, 1, mask=i < n)   # BUG out-of-bounds


@triton.jit
def atomic_in_range(x, o, n, bins, B: tl.constexpr):
    i = tl.arange(0, B)
    bin = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(o + bin % bins, 1, mask=i < n)


@triton.jit
def rows_without_row_mask(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=c[None, :] < N, other=0.0)   # BUG out-of-bounds
    tl.store(o + r, tl.sum(v, 1), mask=r < M)


@triton.jit
def rows_with_row_mask(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N), other=0.0)
    tl.store(o + r, tl.sum(v, 1), mask=r < M)


@triton.jit
def rows_and_columns_swapped(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.arange(0, BM)[:, None]
    c = tl.arange(0, BN)[None, :]
    m = (r < M) & (c < N)
    v = tl.load(x + r * N + c, mask=m)
    tl.store(o + c * N + r, v, mask=m)   # BUG out-of-bounds


@triton.jit
def transpose(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.arange(0, BM)[:, None]
    c = tl.arange(0, BN)[None, :]
    m = (r < M) & (c < N)
    v = tl.load(x + r * N + c, mask=m)   # NOTE mask-always-true
    tl.store(o + c * M + r, v, mask=m)


@triton.jit
def last_chunk_of_a_loop(x, o, n, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    for k in range(0, tl.cdiv(n, B)):
        i = k * B + tl.arange(0, B)
        acc += tl.load(x + i)   # BUG out-of-bounds
    tl.store(o, tl.sum(acc, 0))


@triton.jit
def one_turn_too_many(x, o, n, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    for k in range(0, n // B + 1):
        i = k * B + tl.arange(0, B)
        acc += tl.load(x + i)   # BUG out-of-bounds
    tl.store(o, tl.sum(acc, 0))


@triton.jit
def chunks_masked(x, o, n, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    for k in range(0, n // B + 1):
        i = k * B + tl.arange(0, B)
        acc += tl.load(x + i, mask=i < n, other=0.0)
    tl.store(o, tl.sum(acc, 0))


@triton.jit
def block_pointer_unchecked(x, o, n, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    v = tl.load(p)   # BUG out-of-bounds
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def block_pointer_checked(x, o, n, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    q = tl.make_block_ptr(o, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    tl.store(q, tl.load(p, boundary_check=(0,)), boundary_check=(0,))


@triton.jit
def block_pointer_of_wrong_shape(x, o, M, N, B: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N + 4), (N, 1), (0, 0), (B, B), (1, 0))
    v = tl.load(p, boundary_check=(0, 1))   # BUG out-of-bounds
    tl.store(o + tl.arange(0, B), tl.sum(v, 0), mask=tl.arange(0, B) < N)


@triton.jit
def scalar_index_of_the_size(x, o, n):
    tl.store(o, tl.load(x + n))   # BUG out-of-bounds


@triton.jit
def scalar_last_index(x, o, n):
    tl.store(o, tl.load(x + n - 1))


@triton.jit
def stride_of_another_tensor(x, o, M, sx, so, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * so + c)   # BUG out-of-bounds
    tl.store(o + r * so + c, v)


@triton.jit
def stride_of_its_own(x, o, M, sx, so, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    tl.store(o + r * so + c, tl.load(x + r * sx + c))


@triton.jit
def wide_load_off_by_one(x, o):
    p = (x + 1).to(tl.pointer_type(tl.int64))
    tl.store(o, tl.load(p))   # BUG misaligned


@triton.jit
def wide_load_aligned(x, o):
    p = (x + 2).to(tl.pointer_type(tl.int64))
    tl.store(o, tl.load(p))


@triton.jit
def wide_store_off_by_one(o, B: tl.constexpr):
    p = (o + 1).to(tl.pointer_type(tl.float32))
    tl.store(p + tl.arange(0, B), 1.0)   # BUG misaligned


@triton.jit
def address_in_bytes(x, o):
    p = (x.to(tl.int64, bitcast=True) + 6).to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(o, tl.load(p))   # BUG misaligned


@triton.jit
def output_read_as_zero(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(o + i, mask=m) + tl.load(x + i, mask=m), mask=m)   # BUG uninitialised


@triton.jit
def output_set_first(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, 0.0, mask=m)
    tl.debug_barrier()
    tl.store(o + i, tl.load(o + i, mask=m) + tl.load(x + i, mask=m), mask=m)


@triton.jit
def atomic_on_an_empty_tensor(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
    tl.atomic_add(o, v)   # BUG uninitialised


@triton.jit
def atomic_on_zeros(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
    tl.atomic_add(o, v)


@triton.jit
def counter_never_set(o, count):
    t = tl.atomic_add(count, 1)   # BUG uninitialised
    tl.store(o + t, 1.0)


@triton.jit
def scratch_half_written(x, scratch, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(scratch + i, tl.load(x + i, mask=i < n), mask=i < n)
    tl.debug_barrier()
    v = tl.load(scratch + i)   # BUG uninitialised
    tl.store(o + i, v)


@triton.jit
def scratch_read_as_written(x, scratch, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(scratch + i, tl.load(x + i, mask=i < n), mask=i < n)
    tl.debug_barrier()
    v = tl.load(scratch + i, mask=i < n, other=0.0)
    tl.store(o + i, v)


@triton.jit
def scratch_of_another_program(x, scratch, o, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(scratch + pid * B + i, tl.load(x + pid * B + i))
    v = tl.load(scratch + (pid + 1) % tl.num_programs(0) * B + i)   # BUG uninitialised
    tl.store(o + pid * B + i, v)


@triton.jit
def accumulates_without_zero(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in range(0, 4):
        old = tl.load(o + i)   # BUG uninitialised
        tl.store(o + i, old + tl.load(x + k * B + i))


@triton.jit
def accumulates_from_the_first(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i))
    for k in range(1, 4):
        tl.debug_barrier()
        tl.store(o + i, tl.load(o + i) + tl.load(x + k * B + i))


@triton.jit
def running_mean_of_nothing(x, mean, o, momentum, B: tl.constexpr):
    i = tl.arange(0, B)
    m = tl.sum(tl.load(x + i), 0) / B
    old = tl.load(mean)   # BUG uninitialised
    tl.store(mean, old * momentum + m * (1 - momentum))
    tl.store(o + i, tl.load(x + i) - m)


@triton.jit
def input_used_as_scratch(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i) * 2)   # BUG read-only
    tl.store(o + i, tl.load(x + i))


@triton.jit
def causal_mask_upside_down(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * n + c, mask=c >= r, other=0.0)   # BUG out-of-bounds
    tl.store(o + r, tl.sum(v, 0))


@triton.jit
def causal_mask(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * n + c, mask=(c <= r) & (c < n), other=0.0)
    tl.store(o + r, tl.sum(v, 0))


@triton.jit
def mask_never_holds(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)
    tl.store(o + i, 1.0, mask=i < -1)   # NOTE mask-never-true


@triton.jit
def column_walk(x, o, n, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i * stride)   # NOTE uncoalesced
    tl.store(o + i, v)


# Eight warps' addresses of a table, 64 bytes apart, each warp's those of the first again; and such
# as lie in other orders in the sectors that neighbours would have.
@triton.jit
def table_walk(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.load(idx + i))   # NOTE uncoalesced
    tl.store(o + i, v)


@triton.jit
def table_in_sectors(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.load(idx + i))
    tl.store(o + i, v)


@triton.jit
def dead_first_store(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, 0.0)   # NOTE dead-store
    tl.store(o + i, tl.load(x + i))


B = 32
x, o = f32(N), zeros(N)
for k in (load_without_mask, store_without_mask, masked_copy, mask_of_less_or_equal, mask_of_the_block,
          negative_neighbour, negative_neighbour_masked, next_neighbour, next_neighbour_masked, block_pointer_unchecked,
          block_pointer_checked):
    case(k, 4, dict(x=x, o=o, n=N, B=B), empty=("o",))
case(gathered_index, 1, dict(x=f32(10), idx=i32(0, 9, 3, 10, 2), o=zeros(5), n=5, B=8), empty=("o",))
case(gathered_index_checked, 1, dict(x=f32(10), idx=i32(0, 9, -3, 10, 2), o=zeros(5), n=5, size=10, B=8), empty=("o",))
case(scattered_index, 1, dict(x=f32(5), idx=i32(0, 4, 3, 1, 12), o=zeros(5), n=5, B=8), empty=("o",))
case(atomic_beyond_the_end, 1, dict(x=i32(0, 1, 2, 3, 4), o=zeros(4, dtype=torch.int32), n=5, B=8))
case(atomic_in_range, 1, dict(x=i32(0, 1, 2, 3, 4), o=zeros(4, dtype=torch.int32), n=5, bins=4, B=8))
for k in (rows_without_row_mask, rows_with_row_mask):
    case(k, 3, dict(x=f32(10, 12), o=zeros(10), M=10, N=12, BM=4, BN=16), empty=("o",))
for k in (rows_and_columns_swapped, transpose):
    case(k, 1, dict(x=f32(4, 16), o=zeros(16, 4), M=4, N=16, BM=4, BN=16), empty=("o",))
for k in (last_chunk_of_a_loop, one_turn_too_many, chunks_masked):
    case(k, 1, dict(x=f32(96 if k is one_turn_too_many else N), o=zeros(1), n=96 if k is one_turn_too_many else N, B=B),
         empty=("o",))
case(block_pointer_of_wrong_shape, 1, dict(x=f32(16, 12), o=zeros(12), M=16, N=12, B=16), empty=("o",))
for k in (scalar_index_of_the_size, scalar_last_index):
    case(k, 1, dict(x=f32(7), o=zeros(1), n=7), empty=("o",))
for k in (stride_of_another_tensor, stride_of_its_own):
    case(k, 8, dict(x=f32(8, 16), o=zeros(8, 20), M=8, sx=16, so=20, B=16), empty=("o",))
for k in (wide_load_off_by_one, wide_load_aligned):
    case(k, 1, dict(x=i32(1, 2, 3, 4), o=zeros(1, dtype=torch.int64)), empty=("o",))
case(wide_store_off_by_one, 1, dict(o=zeros(32, dtype=torch.float16), B=8), empty=("o",))
case(address_in_bytes, 1, dict(x=f32(8), o=zeros(1)), empty=("o",))
case(output_read_as_zero, 4, dict(x=x, o=o, n=N, B=B), empty=("o",))
case(output_set_first, 4, dict(x=x, o=o, n=N, B=B), empty=("o",))
case(atomic_on_an_empty_tensor, 4, dict(x=x, o=zeros(1), n=N, B=B), empty=("o",))
case(atomic_on_zeros, 4, dict(x=x, o=zeros(1), n=N, B=B))
case(counter_never_set, 4, dict(o=zeros(4), count=zeros(1, dtype=torch.int32)), empty=("o", "count"))
for k in (scratch_half_written, scratch_read_as_written):
    case(k, 1, dict(x=f32(20), scratch=zeros(B), o=zeros(B), n=20, B=B), empty=("scratch", "o"))
case(scratch_of_another_program, 4, dict(x=f32(64), scratch=zeros(64), o=zeros(64), B=16), empty=("scratch", "o"))
for k in (accumulates_without_zero, accumulates_from_the_first):
    case(k, 1, dict(x=f32(64), o=zeros(16), n=64, B=16), empty=("o",))
case(running_mean_of_nothing, 1, dict(x=f32(16), mean=zeros(1), o=zeros(16), momentum=0.9, B=16), empty=("mean", "o"))
case(input_used_as_scratch, 1, dict(x=f32(16), o=zeros(16), B=16), empty=("o",), read_only=("x",))
for k in (causal_mask_upside_down, causal_mask):
    case(k, 12, dict(x=f32(12, 12), o=zeros(12), n=12, B=16), empty=("o",))
case(mask_never_holds, 4, dict(x=x, o=o, n=N, B=B), empty=("o",))
case(column_walk, 1, dict(x=f32(32, 16), o=zeros(32), n=32, stride=16, B=32), empty=("o",))
case(table_walk, 1, dict(x=f32(32, 16), idx=i32(*[i % 32 * 16 for i in range(256)]), o=zeros(256), B=256), empty=("o",))
case(table_in_sectors, 1, dict(x=f32(64), idx=i32(*[i ^ 21 for i in range(64)]), o=zeros(64), B=64), empty=("o",))
case(dead_first_store, 1, dict(x=f32(32), o=zeros(32), B=32), empty=("o",))
