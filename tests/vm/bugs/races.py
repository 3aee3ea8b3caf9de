"""Races between programs, and the ways in which programs rightly share memory. A bug is marked at
the access that comes later when programs run in order."""
import torch
import triton
import triton.language as tl
from planted import case, f32, i32, zeros

N = 64


@triton.jit
def adds_without_atomic(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.sum(tl.load(x + i), 0)
    old = tl.load(o)   # BUG race
    tl.store(o, old + v)


@triton.jit
def adds_with_atomic(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o, tl.sum(tl.load(x + i), 0))


@triton.jit
def adds_rows_without_atomic(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    old = tl.load(o + i)   # BUG race
    tl.store(o + i, old + tl.load(x + tl.program_id(0) * B + i))


@triton.jit
def adds_rows_with_atomic(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(o + i, tl.load(x + tl.program_id(0) * B + i))


@triton.jit
def last_writer_wins(x, o, B: tl.constexpr):
    v = tl.max(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0)
    tl.store(o, v)   # BUG race


@triton.jit
def writer_for_each(x, o, B: tl.constexpr):
    v = tl.max(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0)
    tl.store(o + tl.program_id(0), v)


@triton.jit
def overlapping_tiles(x, o, B: tl.constexpr):
    i = tl.program_id(0) * (B // 2) + tl.arange(0, B)
    v = tl.load(x + i) * tl.program_id(0)
    tl.store(o + i, v)   # BUG race


@triton.jit
def overlapping_tiles_of_one_value(x, o, B: tl.constexpr):
    i = tl.program_id(0) * (B // 2) + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) * 2)   # NOTE same-value


@triton.jit
def shift_in_place(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(x + i, v, mask=i < n)   # BUG race


@triton.jit
def shift_to_another(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i + 1, mask=i + 1 < n, other=0.0), mask=i < n)


@triton.jit
def unshift_in_place(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i - 1, mask=i > 0, other=0.0)
    tl.store(x + i, v, mask=i < n)   # BUG race


@triton.jit
def scale_in_place(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def transpose_in_place(x, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + c * n + r)   # BUG race
    tl.store(x + r * n + c, v)


@triton.jit
def neighbour_bytes(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(tl.int8))


@triton.jit
def every_third_byte(x, o, B: tl.constexpr):
    i = tl.arange(0, B) * 3 + tl.program_id(0)
    tl.store(o + i, tl.load(x + i).to(tl.int8))


@triton.jit
def words_over_bytes(o, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(o + tl.arange(0, B), (tl.arange(0, B) + 1).to(tl.int8))
    else:
        tl.store((o + 4).to(tl.pointer_type(tl.int32)), 77)   # BUG race


@triton.jit
def bytes_over_words(o, B: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o.to(tl.pointer_type(tl.int32)) + tl.arange(0, B), tl.arange(0, B) + 1)
    else:
        tl.store(o + 5, tl.full((), 9, tl.int8))   # BUG race


@triton.jit
def bytes_beside_words(o, B: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o.to(tl.pointer_type(tl.int32)) + tl.arange(0, B), tl.arange(0, B) + 1)
    else:
        tl.store(o + 4 * B + tl.arange(0, B), tl.full((B,), 9, tl.int8))


@triton.jit
def zeroed_by_the_first(x, o, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(o, 0.0)
    tl.atomic_add(o, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))   # BUG race


@triton.jit
def plain_read_of_a_sum(x, o, out, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(o, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    if pid == tl.num_programs(0) - 1:
        v = tl.load(o)   # BUG race
        tl.store(out, v)


@triton.jit
def last_block_relaxed(x, parts, count, o, P: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    if tl.atomic_add(count, 1, sem="relaxed") == P - 1:
        v = tl.load(parts + tl.arange(0, P))   # BUG race
        tl.store(o, tl.sum(v, 0))


@triton.jit
def last_block_reduces(x, parts, count, o, P: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    if tl.atomic_add(count, 1, sem="acq_rel") == P - 1:
        tl.store(o, tl.sum(tl.load(parts + tl.arange(0, P)), 0))


@triton.jit
def last_block_counts_too_early(x, parts, count, o, P: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    done = tl.atomic_add(count, 1)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    if done == P - 1:
        v = tl.load(parts + tl.arange(0, P))   # BUG race
        tl.store(o, tl.sum(v, 0))


@triton.jit
def last_block_of_cta_scope(x, parts, count, o, P: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    done = tl.atomic_add(count, 1, scope="cta")   # BUG race
    if done == P - 1:
        tl.store(o, tl.sum(tl.load(parts + tl.arange(0, P)), 0))


@triton.jit
def lock_around_a_sum(x, o, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(o + i, tl.load(o + i) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def lock_given_back_too_early(x, o, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    old = tl.load(o + i)   # BUG race
    tl.atomic_xchg(lock, 0)
    tl.store(o + i, old + v)


@triton.jit
def lock_taken_too_late(x, o, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    old = tl.load(o + i)   # BUG race
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(o + i, old + tl.load(x + tl.program_id(0) * B + i))
    tl.atomic_xchg(lock, 0)


@triton.jit
def lock_relaxed(x, o, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1, sem="relaxed") == 1:
        pass
    old = tl.load(o + i)   # BUG race
    tl.store(o + i, old + v)
    tl.atomic_xchg(lock, 0, sem="relaxed")


@triton.jit
def lock_acquire_release(x, o, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.store(o + i, tl.load(o + i) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")


@triton.jit
def one_lock_for_each_half(x, o, locks, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    lock = locks + tl.program_id(0) % 2
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    old = tl.load(o + i)   # BUG race
    tl.store(o + i, old + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def one_lock_and_row_for_each_half(x, o, locks, B: tl.constexpr):
    i = tl.arange(0, B)
    half = tl.program_id(0) % 2
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(locks + half, 0, 1) == 1:
        pass
    tl.store(o + half * B + i, tl.load(o + half * B + i) + v)
    tl.debug_barrier()
    tl.atomic_xchg(locks + half, 0)


@triton.jit
def first_one_stores_others_add(x, o, lock, count, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        v += tl.load(o + i)
    tl.store(o + i, v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def flag_without_a_release(x, y, flags, o, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(y + i, tl.load(x + i))
        tl.atomic_xchg(flags, 1, sem="relaxed")
    else:
        while tl.atomic_add(flags, 0) == 0:
            pass
        v = tl.load(y + i)   # BUG race
        tl.store(o + i, v)


@triton.jit
def flag_not_looked_at(x, y, flags, o, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(y + i, tl.load(x + i))
        tl.atomic_xchg(flags, 1)
    else:
        tl.atomic_add(flags, 0)
        v = tl.load(y + i)   # BUG race
        tl.store(o + i, v)


@triton.jit
def flag_of_another(x, y, flags, o, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(y + pid * B + i, tl.load(x + pid * B + i))
    tl.atomic_xchg(flags + pid, 1)
    if pid == 2:
        while tl.atomic_add(flags + 1, 0) == 0:
            pass
        v = tl.load(y + i)   # BUG race
        tl.store(o + i, v)


@triton.jit
def flag_of_the_writer(x, y, flags, o, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(y + pid * B + i, tl.load(x + pid * B + i))
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1)
    if pid == 2:
        while tl.atomic_add(flags, 0) == 0:
            pass
        tl.store(o + i, tl.load(y + i))


@triton.jit
def chained_sum(x, sums, flags, B: tl.constexpr):
    pid = tl.program_id(0)
    v = tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0)
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
        v += tl.load(sums + pid - 1)
    tl.store(sums + pid, v)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1)


@triton.jit
def chain_reads_the_first(x, sums, flags, o, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(sums + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
    tl.debug_barrier()
    tl.store(o + pid, tl.load(sums))
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1)


@triton.jit
def ticket_queue(x, o, queue, tiles, B: tl.constexpr):
    tile = tl.atomic_add(queue, 1)
    while tile < tiles:
        i = tile * B + tl.arange(0, B)
        tl.store(o + i, tl.load(x + i))
        tile = tl.atomic_add(queue, 1)


@triton.jit
def ticket_queue_read_plainly(x, o, queue, tiles, B: tl.constexpr):
    tile = tl.load(queue)   # BUG race
    tl.debug_barrier()
    tl.store(queue, tile + 1)
    i = tile * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i), mask=i < tiles * B)


@triton.jit
def ordered_semaphore(x, o, sem, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + pid * B + i)
    while tl.atomic_cas(sem, pid, pid) != pid:
        pass
    tl.store(o + i, tl.load(o + i) + v)
    tl.debug_barrier()
    tl.atomic_xchg(sem, pid + 1)


@triton.jit
def volatile_flag(x, y, flag, o, B: tl.constexpr):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(y + i, tl.load(x + i))
        tl.debug_barrier()
        tl.atomic_xchg(flag, 1)
    else:
        while tl.load(flag, volatile=True) == 0:
            pass
        tl.store(o + i, tl.load(y + i))   # NOTE same-value


@triton.jit
def everybody_sets_the_flag(x, o, flag, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, v)
    if tl.max(v, 0) > 0:
        tl.store(flag, 1)   # NOTE same-value


@triton.jit
def histogram_by_atomics(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + tl.load(x + i), 1)


@triton.jit
def histogram_by_stores(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    b = tl.load(x + i)
    n = tl.load(o + b)   # BUG race
    tl.store(o + b, n + 1)


@triton.jit
def maximum_by_atomic(x, o, B: tl.constexpr):
    tl.atomic_max(o, tl.max(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0))


@triton.jit
def extremes_of_floats_by_atomics(x, o, B: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    tl.atomic_max(o, tl.max(v, 0))
    tl.atomic_min(o + 1 + tl.arange(0, B), v)


@triton.jit
def maximum_by_compare(x, o, B: tl.constexpr):
    v = tl.max(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0)
    if v > tl.load(o):   # BUG race
        tl.store(o, v)


@triton.jit
def split_k_by_atomic(a, b, c, K, S: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(tl.program_id(0) * B, K, S * B):
        k = k0 + i
        acc += tl.dot(tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * B + i[None, :]))
    tl.atomic_add(c + i[:, None] * B + i[None, :], acc)


@triton.jit
def split_k_by_store(a, b, c, K, S: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = c + i[:, None] * B + i[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(tl.program_id(0) * B, K, S * B):
        k = k0 + i
        acc += tl.dot(tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * B + i[None, :]))
    old = tl.load(p)   # BUG race
    tl.store(p, old + acc)


@triton.jit
def split_k_with_locks(a, b, c, locks, K, S: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    s = tl.program_id(0)
    p = c + i[:, None] * B + i[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(s * B, K, S * B):
        k = k0 + i
        acc += tl.dot(tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * B + i[None, :]))
    while tl.atomic_cas(locks, s, s) != s:
        pass
    if s > 0:
        acc += tl.load(p)
    tl.store(p, acc)
    tl.debug_barrier()
    tl.atomic_xchg(locks, (s + 1) % S)


@triton.jit
def grid_of_wrong_modulus(x, o, M, B: tl.constexpr):
    r = tl.program_id(0) % M
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    tl.store(o + r * B + i, v)   # BUG race


@triton.jit
def columns_forgotten(x, o, N, B: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, v * tl.program_id(1))   # BUG race


@triton.jit
def columns_kept(x, o, N, B: tl.constexpr):
    i = tl.program_id(0) * N + tl.program_id(1) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) * tl.program_id(1))


@triton.jit
def waits_for_a_later_program(x, flags, o):
    pid = tl.program_id(0)
    if pid == 0:
        while tl.atomic_add(flags + 1, 0) == 0:   # BUG needs-co-residency
            pass
    tl.atomic_xchg(flags + pid, 1)
    tl.store(o + pid, tl.load(x + pid))


@triton.jit
def barrier_over_the_grid(count, o):
    pid = tl.program_id(0)
    tl.atomic_add(count, 1)
    while tl.atomic_cas(count, 0, 0) < tl.num_programs(0):   # BUG needs-co-residency
        pass
    tl.store(o + pid, 1.0)


@triton.jit
def volatile_wait(flags, o):
    pid = tl.program_id(0)
    while tl.load(flags + pid, volatile=True) == 0:   # BUG needs-co-residency
        pass
    tl.store(o + pid, 1.0)


@triton.jit
def bounded_wait(flags, o):
    turns = 0
    while (tl.atomic_add(flags + tl.program_id(0), 0) == 0) & (turns < 5000):
        turns += 1
    tl.store(o + tl.program_id(0), turns)


ints = lambda n, m: torch.arange(n, dtype=torch.int32) % m


@triton.jit
def stores_then_adds(o, B: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o, 5.0)
    tl.atomic_add(o, 1.0)   # BUG race


@triton.jit
def reads_then_adds(o, count, B: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o, tl.load(count))
    tl.atomic_add(count, 1)   # BUG race


@triton.jit
def reads_again_after_the_release(o, x, flags, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(o + i, tl.load(x + i))
        tl.atomic_xchg(flags, 1)
    if pid == 1:
        if tl.atomic_add(flags, 0) == 1:
            a = tl.load(x + i)
            tl.atomic_xchg(flags + 1, 1)
            tl.store(o + B + i, a + tl.load(x + i))
    if pid == 2:
        if tl.atomic_add(flags + 1, 0) == 1:
            tl.store(x + i, 0.0)   # BUG race


@triton.jit
def reads_before_the_release(o, x, flags, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(o + i, tl.load(x + i))
        tl.debug_barrier()
        tl.atomic_xchg(flags, 1)
    if pid == 1:
        if tl.atomic_add(flags, 0) == 1:
            tl.store(o + B + i, tl.load(x + i) + tl.load(x + i))
            tl.debug_barrier()
            tl.atomic_xchg(flags + 1, 1)
    if pid == 2:
        if tl.atomic_add(flags + 1, 0) == 1:
            tl.store(x + i, 0.0)


@triton.jit
def address_as_a_number(x, o, at, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(o + i, tl.load(x + i))
    else:
        tl.store(at.to(tl.pointer_type(tl.float32), bitcast=True) + i, 0.0)   # BUG race


@triton.jit
def wild_address_beside_a_race(x, o, far, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid == 0:
        tl.store(o + i, tl.load(x + tl.where(i == 3, far, i)))   # BUG out-of-bounds
    tl.store(o, pid.to(tl.float32))


B = 16
for k in (adds_without_atomic, adds_with_atomic, last_writer_wins):
    case(k, 4, dict(x=f32(N), o=zeros(1), B=B))
case(writer_for_each, 4, dict(x=f32(N), o=zeros(4), B=B), empty=("o",))
for k in (adds_rows_without_atomic, adds_rows_with_atomic):
    case(k, 4, dict(x=f32(N), o=zeros(B), B=B))
for k in (overlapping_tiles, overlapping_tiles_of_one_value):
    case(k, 7, dict(x=f32(N), o=zeros(N), B=B), empty=("o",))
for k in (shift_in_place, unshift_in_place, scale_in_place):
    case(k, 4, dict(x=f32(N), n=N, B=B))
case(shift_to_another, 4, dict(x=f32(N), o=zeros(N), n=N, B=B), empty=("o",))
case(transpose_in_place, 16, dict(x=f32(16, 16), n=16, B=16))
case(neighbour_bytes, 4, dict(x=ints(12, 100), o=zeros(12, dtype=torch.int8), B=1), empty=("o",))
case(every_third_byte, 3, dict(x=ints(48, 100), o=zeros(48, dtype=torch.int8), B=16), empty=("o",))
case(words_over_bytes, 2, dict(o=zeros(16, dtype=torch.int8), B=16))
for k in (bytes_over_words, bytes_beside_words):
    case(k, 2, dict(o=zeros(32, dtype=torch.int8), B=4))
case(zeroed_by_the_first, 4, dict(x=f32(N), o=zeros(1), B=B))
case(plain_read_of_a_sum, 4, dict(x=f32(N), o=zeros(1), out=zeros(1), B=B), empty=("out",))
for k in (last_block_relaxed, last_block_reduces, last_block_counts_too_early, last_block_of_cta_scope):
    case(k, 4, dict(x=f32(N), parts=zeros(4), count=i32(0), o=zeros(1), P=4, B=B), empty=("parts", "o"))
for k in (lock_around_a_sum, lock_given_back_too_early, lock_taken_too_late, lock_relaxed, lock_acquire_release):
    case(k, 4, dict(x=f32(N), o=zeros(B), lock=i32(0), B=B))
case(one_lock_for_each_half, 4, dict(x=f32(N), o=zeros(B), locks=i32(0, 0), B=B))
case(one_lock_and_row_for_each_half, 4, dict(x=f32(N), o=zeros(2 * B), locks=i32(0, 0), B=B))
case(first_one_stores_others_add, 4, dict(x=f32(N), o=zeros(B), lock=i32(0), count=i32(0), B=B), empty=("o",))
for k in (flag_without_a_release, flag_not_looked_at):
    case(k, 2, dict(x=f32(B), y=zeros(B), flags=i32(0), o=zeros(B), B=B), empty=("y", "o"))
for k in (flag_of_another, flag_of_the_writer):
    case(k, 3, dict(x=f32(N), y=zeros(N), flags=i32(0, 0, 0), o=zeros(B), B=B), empty=("y", "o"))
case(chained_sum, 4, dict(x=f32(N), sums=zeros(4), flags=i32(0, 0, 0, 0), B=B), empty=("sums",))
case(chain_reads_the_first, 4, dict(x=f32(N), sums=zeros(4), flags=i32(0, 0, 0, 0), o=zeros(4), B=B),
     empty=("sums", "o"))
for k in (ticket_queue, ticket_queue_read_plainly):
    case(k, 2, dict(x=f32(N), o=zeros(N), queue=i32(0), tiles=4, B=B), empty=("o",))
case(ordered_semaphore, 4, dict(x=f32(N), o=zeros(B), sem=i32(0), B=B))
case(volatile_flag, 3, dict(x=f32(B), y=zeros(B), flag=i32(0), o=zeros(B), B=B), empty=("y", "o"))
case(everybody_sets_the_flag, 4, dict(x=f32(N), o=zeros(N), flag=i32(0), B=B), empty=("o",))
for k in (histogram_by_atomics, histogram_by_stores):
    case(k, 4, dict(x=torch.arange(64, dtype=torch.int32) // 3 % 16, o=zeros(16, dtype=torch.int32), B=B))
for k in (maximum_by_atomic, maximum_by_compare):
    case(k, 4, dict(x=ints(64, 100), o=i32(0), B=B))
case(extremes_of_floats_by_atomics, 4, dict(x=f32(64), o=zeros(1 + B), B=B))
for k in (split_k_by_atomic, split_k_by_store):
    case(k, 4, dict(a=f32(16, 64), b=f32(64, 16), c=zeros(16, 16), K=64, S=4, B=16))
case(split_k_with_locks, 4, dict(a=f32(16, 64), b=f32(64, 16), c=zeros(16, 16), locks=i32(0), K=64, S=4, B=16),
     empty=("c",))
case(grid_of_wrong_modulus, 4, dict(x=f32(N), o=zeros(N), M=3, B=B), empty=("o",))
for k in (columns_forgotten, columns_kept):
    case(k, (2, 2), dict(x=f32(2, 32), o=zeros(2, 32), N=32, B=16), empty=("o",))
case(waits_for_a_later_program, 2, dict(x=f32(2), flags=i32(0, 0), o=zeros(2)), empty=("o",))
case(barrier_over_the_grid, 2, dict(count=i32(0), o=zeros(2)), empty=("o",))
case(volatile_wait, 2, dict(flags=i32(0, 0), o=zeros(2)), empty=("o",))
case(bounded_wait, 2, dict(flags=i32(0, 0), o=zeros(2)), empty=("o",))
case(stores_then_adds, 3, dict(o=zeros(1), B=B))
case(reads_then_adds, 2, dict(o=i32(0), count=i32(0), B=B), empty=("o",))
for k in (reads_again_after_the_release, reads_before_the_release):
    case(k, 3, dict(o=zeros(2 * B), x=f32(B), flags=i32(0, 0), B=B), empty=("o",))
case(address_as_a_number, 2, dict(x=f32(B), o=zeros(B), at=1 << 40, B=B), empty=("o",))   # buffer 0
