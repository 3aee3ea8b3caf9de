"""Reductions whose function does not commute or associate, so that the value depends on the order
in which a GPU combines elements; and honest ones, whose results differ by rounding at most. Scans
keep their order and may have any associative function."""
import torch
import triton
import triton.language as tl
from planted import case, f32, i32, zeros


@triton.jit
def first(a, b):
    return a


@triton.jit
def last(a, b):
    return b


@triton.jit
def minus(a, b):
    return a - b


@triton.jit
def mean_of_two(a, b):
    return (a + b) * 0.5


@triton.jit
def decayed(a, b):
    return a * 0.75 + b


@triton.jit
def polynomial(a, b):
    return a * 31 + b


@triton.jit
def first_that_is_set(a, b):
    return tl.where(a != 0, a, b)


@triton.jit
def step(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def best_run(s1, p1, q1, m1, s2, p2, q2, m2):
    return s1 + s2, tl.maximum(p1, s1 + p2), tl.maximum(q2, s2 + q1), tl.maximum(tl.maximum(m1, m2), q1 + p2)


@triton.jit
def matrix(a, b, c, d, e, f, g, h):
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


@triton.jit
def larger_by_branch(a, b):
    if a > b:
        r = a
    else:
        r = b
    return r


@triton.jit
def positive_by_branch(a, b):
    if a > 0.0:
        r = a
    else:
        r = b
    return r


@triton.jit
def larger_in_size(a, b):
    return tl.where(tl.abs(a) >= tl.abs(b), a, b)


@triton.jit
def welford(m1, v1, n1, m2, v2, n2):
    d = m2 - m1
    n = n1 + n2
    w = tl.where(n == 0.0, 0.0, n2 / n)
    return m1 + d * w, v1 + v2 + d * d * n1 * w, n


@triton.jit
def online_softmax(m1, l1, m2, l2):
    m = tl.maximum(m1, m2)
    shift = tl.where(m == float("-inf"), 0.0, m)
    return m, l1 * tl.exp(m1 - shift) + l2 * tl.exp(m2 - shift)


@triton.jit
def log_add_exp(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@triton.jit
def both_sums(a1, b1, a2, b2):
    return a1 + a2, b1 + b2


@triton.jit
def least_and_largest(a1, b1, a2, b2):
    return tl.minimum(a1, a2), tl.maximum(b1, b2)


@triton.jit
def least_with_index(v1, i1, v2, i2):
    takes = (v1 < v2) | ((v1 == v2) & (i1 < i2))
    return tl.where(takes, v1, v2), tl.where(takes, i1, i2)


@triton.jit
def complex_product(a, b, c, d):
    return a * c - b * d, a * d + b * c


@triton.jit
def compensated(s1, c1, s2, c2):
    s = s1 + s2
    t = s - s1
    return s, c1 + c2 + ((s1 - (s - t)) + (s2 - t))


@triton.jit
def both_products(a1, b1, a2, b2):
    return a1 * a2, b1 * b2


@triton.jit
def squares(a, b):
    return tl.sqrt(a * a + b * b)


@triton.jit
def greatest_divisor(a, b):
    while b != 0:
        r = a % b
        a = b
        b = r
    return a


@triton.jit
def any_of(a, b):
    return a | (b != 0)


@triton.jit
def takes_the_first(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, first))   # BUG order-dependent


@triton.jit
def takes_the_last_integer(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, last))   # BUG order-dependent


@triton.jit
def subtracts(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, minus))   # BUG order-dependent


@triton.jit
def takes_means_of_means(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, mean_of_two))   # BUG order-dependent


@triton.jit
def decays(x, o, R: tl.constexpr, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :])
    s = tl.reduce(v, 1, decayed)   # BUG order-dependent
    tl.store(o + tl.arange(0, R), s * 2.0)


@triton.jit
def decays_down_the_columns(x, o, R: tl.constexpr, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :])
    s = tl.reduce(v, 0, decayed)   # BUG order-dependent
    tl.store(o + tl.arange(0, B), s)


@triton.jit
def hashes(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, polynomial))   # BUG order-dependent


@triton.jit
def finds_the_first_that_is_set(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, first_that_is_set))   # BUG order-dependent


@triton.jit
def recurrence(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.reduce((tl.load(x + i), tl.load(y + i)), 0, step)   # BUG order-dependent
    tl.store(o, b)


@triton.jit
def product_of_a_recurrence(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.reduce((tl.load(x + i), tl.load(y + i)), 0, step)
    tl.store(o, a)


@triton.jit
def recurrence_by_a_scan(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.associative_scan((tl.load(x + i), tl.load(y + i)), 0, step)
    tl.store(o + i, b)


@triton.jit
def best_sum_of_neighbours(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    s, p, q, m = tl.reduce((v, v, v, v), 0, best_run)   # BUG order-dependent
    tl.store(o, m)


@triton.jit
def product_of_matrices(x, o, B: tl.constexpr):
    i = tl.arange(0, B) * 4
    parts = (tl.load(x + i), tl.load(x + i + 1), tl.load(x + i + 2), tl.load(x + i + 3))
    a, b, c, d = tl.reduce(parts, 0, matrix)   # BUG order-dependent
    tl.store(o, b)


@triton.jit
def finds_a_positive_by_branch(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B)) - 3.0
    tl.store(o, tl.reduce(v, 0, positive_by_branch))   # BUG order-dependent


@triton.jit
def any_of_the_largest(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.argmax(v, 0, tie_break_left=False))   # BUG order-dependent


@triton.jit
def reads_at_any_of_the_largest(x, y, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    at = tl.argmax(v, 0, tie_break_left=False)   # BUG order-dependent
    tl.store(o, tl.load(y + at))


@triton.jit
def sign_of_the_largest(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o, tl.reduce(v, 0, larger_in_size))   # BUG order-dependent


@triton.jit
def unguarded_log_sum_exp(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=float("-inf"))
    tl.store(o, tl.reduce(v, 0, log_add_exp))   # BUG order-dependent


@triton.jit
def decays_in_a_loop(x, o, n, B: tl.constexpr):
    s = 0.0
    for k in range(0, n, B):
        s += tl.reduce(tl.load(x + k + tl.arange(0, B)), 0, decayed)   # BUG order-dependent
    tl.store(o, s)


# ---- honest ----

@triton.jit
def means_of_pairs(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B)[:, None] * 2 + tl.arange(0, 2)[None, :])
    tl.store(o + tl.arange(0, B), tl.reduce(v, 1, mean_of_two))


@triton.jit
def variance_by_welford(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + r * n + i, mask=m, other=0.0)
    mean, m2, count = tl.reduce((v, tl.zeros((B,), tl.float32), m.to(tl.float32)), 0, welford)
    tl.store(o + r * 3, mean)
    tl.store(o + r * 3 + 1, m2 / n)
    tl.store(o + r * 3 + 2, count)


@triton.jit
def softmax_by_pairs(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("-inf"))
    m, l = tl.reduce((v, tl.where(i < n, 1.0, 0.0)), 0, online_softmax)
    tl.store(o + tl.program_id(0) * n + i, tl.exp(v - m) / l, mask=i < n)


@triton.jit
def log_sum_exp(x, o, B: tl.constexpr):
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, B)), 0, log_add_exp))


@triton.jit
def largest_and_index(x, o, p, R: tl.constexpr, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :])
    m, i = tl.max(v, 1, return_indices=True)
    tl.store(o + tl.arange(0, R), m)
    tl.store(p + tl.arange(0, R), i)


@triton.jit
def least_index_of_columns(x, p, R: tl.constexpr, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :])
    tl.store(p + tl.arange(0, B), tl.argmin(v, 0))


@triton.jit
def least_with_own_index(x, o, p, B: tl.constexpr):
    i = tl.arange(0, B)
    m, at = tl.reduce((tl.load(x + i), i), 0, least_with_index)
    tl.store(o, m)
    tl.store(p, at)


@triton.jit
def largest_of_ties_alone(x, o, B: tl.constexpr):
    m, i = tl.max(tl.load(x + tl.arange(0, B)), 0, return_indices=True, return_indices_tie_break_left=False)
    tl.store(o, m)


@triton.jit
def any_largest_without_ties(x, p, B: tl.constexpr):
    tl.store(p, tl.argmax(tl.load(x + tl.arange(0, B)), 0, tie_break_left=False))


@triton.jit
def any_largest_of_padded_rows(x, p, n, R: tl.constexpr, B: tl.constexpr):
    r = tl.arange(0, R)
    v = tl.load(x + r[:, None] * B + tl.arange(0, B)[None, :], mask=(r < n)[:, None], other=float("-inf"))
    tl.store(p + r, tl.argmax(v, 1, tie_break_left=False), mask=r < n)


@triton.jit
def two_sums(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.reduce((tl.load(x + i), tl.load(y + i)), 0, both_sums)
    tl.store(o, a)
    tl.store(o + 1, b)


@triton.jit
def two_products(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.reduce((tl.load(x + i), tl.load(y + i)), 0, both_products)
    tl.store(o, a)
    tl.store(o + 1, b)


@triton.jit
def range_of_values(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    a, b = tl.reduce((v, v), 0, least_and_largest)
    tl.store(o, b - a)


@triton.jit
def rotations(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.reduce((tl.load(x + i), tl.load(y + i)), 0, complex_product)
    tl.store(o, a)
    tl.store(o + 1, b)


@triton.jit
def compensated_sum(x, o, B: tl.constexpr):
    s, c = tl.reduce((tl.load(x + tl.arange(0, B)), tl.zeros((B,), tl.float32)), 0, compensated)
    tl.store(o, s)
    tl.store(o + 1, c)


@triton.jit
def euclidean_norm(x, o, B: tl.constexpr):
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, B)), 0, squares))


@triton.jit
def largest_by_branch(x, o, R: tl.constexpr, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :])
    tl.store(o + tl.arange(0, R), tl.reduce(v, 1, larger_by_branch))


@triton.jit
def divisor_of_all(x, o, B: tl.constexpr):
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, B)), 0, greatest_divisor))


@triton.jit
def whether_any(x, o, B: tl.constexpr):
    tl.store(o, tl.reduce((tl.load(x + tl.arange(0, B)) > 3.0).to(tl.int32), 0, any_of))


@triton.jit
def not_used(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    s = tl.reduce(v, 0, decayed)
    tl.store(o, tl.where(tl.sum(v, 0) > -1.0, 1.0, s))


torch.manual_seed(11)
B = 64
normal = lambda *shape, dtype=torch.float32: torch.randn(shape).to(dtype)
whole = torch.arange(B, dtype=torch.int32) % 13 + 1
for k in (takes_the_first, subtracts, takes_means_of_means, finds_the_first_that_is_set, best_sum_of_neighbours):
    case(k, 1, dict(x=normal(B), o=zeros(1), B=B), empty=("o",))
case(takes_the_first, 1, dict(x=normal(2), o=zeros(1), B=2), empty=("o",), name="takes_the_first_of_two")
case(takes_means_of_means, 1, dict(x=normal(4), o=zeros(1), B=4), empty=("o",), name="takes_means_of_four")
case(best_sum_of_neighbours, 1, dict(x=torch.tensor([3.0, 2.0, -1.0, -4.0]), o=zeros(1), B=4), empty=("o",),
     name="best_sum_of_four")
case(takes_the_first, 1, dict(x=normal(B, dtype=torch.bfloat16), o=zeros(1), B=B), empty=("o",),
     name="takes_the_first_in_bf16")
for k in (takes_the_last_integer, hashes):
    case(k, 1, dict(x=whole, o=i32(0), B=B), empty=("o",))
case(decays, 1, dict(x=normal(4, B), o=zeros(4), R=4, B=B), empty=("o",))
case(decays_down_the_columns, 1, dict(x=normal(8, B), o=zeros(B), R=8, B=B), empty=("o",))
case(recurrence, 1, dict(x=torch.rand(B), y=normal(B), o=zeros(1), B=B), empty=("o",))
case(product_of_a_recurrence, 1, dict(x=torch.rand(B) + 0.5, y=normal(B), o=zeros(1), B=B), empty=("o",))
case(recurrence_by_a_scan, 1, dict(x=torch.rand(B), y=normal(B), o=zeros(B), B=B), empty=("o",))
case(product_of_matrices, 1, dict(x=normal(4 * 8), o=zeros(1), B=8), empty=("o",))
case(finds_a_positive_by_branch, 1, dict(x=f32(16), o=zeros(1), B=16), empty=("o",))
case(any_of_the_largest, 1, dict(x=(torch.arange(B) % 7).float(), o=i32(0), B=B), empty=("o",))
case(reads_at_any_of_the_largest, 1, dict(x=(torch.arange(B) % 7).float(), y=f32(B), o=zeros(1), B=B), empty=("o",))
case(sign_of_the_largest, 1, dict(x=((torch.arange(B) + 2) % 7 - 3).float(), o=zeros(1), B=B), empty=("o",))
case(unguarded_log_sum_exp, 1, dict(x=f32(5), o=zeros(1), n=5, B=8), empty=("o",))
case(decays_in_a_loop, 1, dict(x=f32(4 * B), o=zeros(1), n=4 * B, B=B), empty=("o",))
case(means_of_pairs, 1, dict(x=normal(B, 2), o=zeros(B), B=B), empty=("o",))
for name, x in (("", normal(3, 50)), ("_far_from_zero", normal(3, 50) + 1e6),
                ("_of_equal_values", torch.full((3, 50), 0.1)), ("_of_small_values", normal(3, 50) * 1e-6)):
    case(variance_by_welford, 3, dict(x=x, o=zeros(9), n=50, B=B), empty=("o",), name="variance_by_welford" + name)
case(variance_by_welford, 2, dict(x=normal(2, 900) * 3 + 7, o=zeros(6), n=900, B=1024), empty=("o",),
     name="variance_of_a_long_row")
case(softmax_by_pairs, 3, dict(x=normal(3, 50) * 10, o=zeros(3, 50), n=50, B=B), empty=("o",))
case(log_sum_exp, 1, dict(x=normal(B) * 20, o=zeros(1), B=B), empty=("o",))
case(largest_and_index, 1, dict(x=(torch.arange(4 * B) % 7).float(), o=zeros(4), p=i32(0, 0, 0, 0), R=4, B=B),
     empty=("o", "p"))
case(least_index_of_columns, 1, dict(x=(torch.arange(4 * B) % 7 % 3).float(), p=i32(*[0] * B), R=4, B=B), empty=("p",))
case(least_with_own_index, 1, dict(x=(torch.arange(B) * 3 % 7).float(), o=zeros(1), p=i32(0), B=B), empty=("o", "p"))
case(largest_of_ties_alone, 1, dict(x=(torch.arange(B) % 7).float(), o=zeros(1), B=B), empty=("o",))
case(any_largest_without_ties, 1, dict(x=normal(B), p=i32(0), B=B), empty=("p",))
case(any_largest_of_padded_rows, 1, dict(x=normal(3, B), p=i32(0, 0, 0), n=3, R=4, B=B), empty=("p",))
for name, x in (("", normal(B)), ("_in_bf16", normal(512, dtype=torch.bfloat16)),
                ("_in_f16", normal(512, dtype=torch.float16)),
                ("_of_cancelling_values",
                 torch.cat((normal(256) * 1e4,) * 2) * torch.tensor([1.0, -1.0]).repeat_interleave(256))):
    case(two_sums, 1, dict(x=x, y=x.flip(0).contiguous(), o=zeros(2), B=x.numel()), empty=("o",),
         name="two_sums" + name)
case(two_products, 1, dict(x=torch.rand(B) + 0.5, y=torch.rand(B) * 1e3, o=zeros(2), B=B), empty=("o",))
case(range_of_values, 1, dict(x=normal(B), o=zeros(1), B=B), empty=("o",))
angle = torch.rand(B) * 6
case(rotations, 1, dict(x=angle.cos(), y=angle.sin(), o=zeros(2), B=B), empty=("o",))
for k in (compensated_sum, euclidean_norm):
    case(k, 1, dict(x=normal(B) * 100, o=zeros(2), B=B), empty=("o",))
case(largest_by_branch, 1, dict(x=normal(4, 16), o=zeros(4), R=4, B=16), empty=("o",))
case(divisor_of_all, 1, dict(x=i32(*[12 * k for k in range(3, 11)]), o=i32(0), B=8), empty=("o",))
case(whether_any, 1, dict(x=f32(B), o=i32(0), B=B), empty=("o",))
case(not_used, 1, dict(x=f32(B), o=zeros(1), B=B), empty=("o",))
