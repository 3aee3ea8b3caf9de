"""A fourth set of tasks for cost_h200.py (--set cost_traps): kernels that compute the same, some of
which do work that is easily overlooked where costs are counted. Work that only an inner loop of one
turn seems to share; layouts that change on lines of their own; programs of which one does all;
products that several warps compute again; functions of what a reduction left, which many threads
hold; loads that pass L1 by; casts by way of fp64; atomics of many lanes on one place.

The tables are as in cost_tasks.py.
"""
import torch
import triton
import triton.language as tl

from cost_tasks import Task, launch, normal, zero
from cost_waits import k_zero

F16, F64, I32 = torch.float16, torch.float64, torch.int32


# ---- work that an inner loop does not change ----

@triton.jit
def k_turns(x, o, TURNS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    acc = tl.zeros([B], tl.float32)
    for t in range(TURNS):
        acc += tl.exp(-tl.abs(v + t))
    tl.store(o + i, acc)


@triton.jit
def k_turns_within(x, o, inner, TURNS: tl.constexpr, B: tl.constexpr):
    """The same, each turn in a loop of one turn."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    acc = tl.zeros([B], tl.float32)
    for t in range(TURNS):
        w = v + t
        for _ in range(0, inner, 2):
            acc += tl.exp(-tl.abs(w))
    tl.store(o + i, acc)


def within_task():
    n, turns, b = 1 << 20, 64, 1024

    def reference(t):
        x = t["x"].double()
        return sum(torch.exp(-(x + k).abs()) for k in range(turns)).float()
    return Task("within", {"x": normal(n), "o": zero(n)}, reference, 1e-4, {
        "flat": launch(k_turns, n // b, TURNS=turns, B=b),
        "within": launch(k_turns_within, n // b, inner=2, TURNS=turns, B=b),
    })


# ---- layouts that change ----

@triton.jit
def k_turned(x, o, TURNS: tl.constexpr, EACH: tl.constexpr, N: tl.constexpr):
    """Squares that are transposed once in each turn, or not at all."""
    r = tl.arange(0, N)
    at = tl.program_id(0) * N * N + r[:, None] * N + r[None, :]
    v = tl.load(x + at)
    for _ in range(TURNS):
        if EACH:
            v = tl.trans(v)
        v = v * 0.5 + 1.0
    tl.store(o + at, v)


def turned_task():
    n, count, turns = 64, 256, 16

    def reference(t):
        v = t["x"].double()
        for _ in range(turns):
            v = v * 0.5 + 1
        return v.float()
    return Task("turned", {"x": normal(count, n, n), "o": zero(count, n, n)}, reference, 1e-5, {
        "none": launch(k_turned, count, TURNS=turns, EACH=False, N=n),
        "each": launch(k_turned, count, TURNS=turns, EACH=True, N=n),
    })


# ---- programs of which one does all ----

@triton.jit
def k_walk(x, o, programs, n, B: tl.constexpr):
    """The first `programs` programs share the blocks."""
    pid = tl.program_id(0)
    if pid < programs:
        for at in range(pid * B, n, programs * B):
            i = at + tl.arange(0, B)
            tl.store(o + i, tl.load(x + i) * 2)


def walk_task():
    n, b = 1 << 22, 8192

    def walk(grid, programs, warps=8):
        return launch(k_walk, grid, warps=warps, programs=programs, n=n, B=b)
    return Task("walk", {"x": normal(n), "o": zero(n)}, lambda t: t["x"] * 2, 0, {
        "all": walk(512, 512),
        "one_alone": walk(1, 1),
        "one_of_132": walk(132, 1),
        "one_of_4096": walk(4096, 1),
        "eight_of_4096": walk(4096, 8),
    })


# ---- products that warps compute again ----

@triton.jit
def k_small_dots(x, o, TURNS: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    r, k = tl.arange(0, M), tl.arange(0, K)
    base = tl.program_id(0) * M * K
    a = tl.load(x + base + r[:, None] * K + k[None, :])
    acc = tl.zeros([M, M], tl.float32)
    for _ in range(TURNS):
        acc = tl.dot(a, tl.trans(a), acc)
        a = a * 0.5
    tl.store(o + tl.program_id(0) * M * M + r[:, None] * M + r[None, :], acc)


def dots_task():
    m, k, count, turns = 16, 64, 1024, 32

    def reference(t):
        a = t["x"].double()
        acc = 0
        for _ in range(turns):
            acc = acc + a @ a.transpose(1, 2)
            a = (a * 0.5).half().double()
        return acc.float()

    def dots(warps):
        return launch(k_small_dots, count, warps=warps, TURNS=turns, M=m, K=k)
    return Task("small_dots", {"x": normal(count, m, k, dtype=F16), "o": zero(count, m, m)}, reference, 1e-2,
                {f"warps_{w}": dots(w) for w in (1, 4, 8, 16)})


# ---- functions of what a reduction left ----

@triton.jit
def k_after_sum(x, o, TURNS: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Sums of N rows of M; then a chain of exponentials for each. AXIS 0: the block is turned."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    base = x + tl.program_id(0) * M * N
    if AXIS == 1:
        s = tl.sum(tl.load(base + n[:, None] * M + m[None, :]), 1)
    else:
        s = tl.sum(tl.load(base + n[None, :] * M + m[:, None]), 0)
    for _ in range(TURNS):
        s = tl.exp(-tl.abs(s))
    tl.store(o + tl.program_id(0) * N + n, s)


@triton.jit
def k_after_loop(x, o, TURNS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """The same, where each thread sums rows of its own."""
    n = tl.arange(0, N)
    s = tl.zeros([N], tl.float32)
    for m in range(M):
        s += tl.load(x + tl.program_id(0) * M * N + n * M + m)
    for _ in range(TURNS):
        s = tl.exp(-tl.abs(s))
    tl.store(o + tl.program_id(0) * N + n, s)


def after_task():
    m, n, count, turns = 32, 128, 1056, 128

    def reference(t):
        s = t["x"].double().sum(2)
        for _ in range(turns):
            s = torch.exp(-s.abs())
        return s.float()

    def block(warps, axis=1):
        return launch(k_after_sum, count, warps=warps, TURNS=turns, AXIS=axis, M=m, N=n)
    return Task("after_sum", {"x": normal(count, n, m), "o": zero(count, n)}, reference, 1e-4, {
        "block": block(4),
        "block_1_warp": block(1),
        "block_8_warps": block(8),
        "turned": block(4, 0),
        "loop": launch(k_after_loop, count, TURNS=turns, M=m, N=n),
    })


# ---- loads that pass L1 by ----

@triton.jit
def k_again(x, o, TURNS: tl.constexpr, HOW: tl.constexpr, B: tl.constexpr):
    """The same 4 KiB again and again, each turn at another beginning."""
    i = tl.arange(0, B)
    acc = tl.zeros([B], tl.float32)
    for t in range(TURNS):
        at = x + (i + t * 32) % B
        if HOW == "volatile":
            acc += tl.load(at, volatile=True)
        elif HOW == "cg":
            acc += tl.load(at, cache_modifier=".cg")
        else:
            acc += tl.load(at)
    tl.store(o + tl.program_id(0) * B + i, acc)


def again_task():
    b, count, turns = 1024, 1056, 64

    def reference(t):
        x = t["x"].double()
        return sum(torch.roll(x, -32 * k) for k in range(turns)).float().expand(count, b)

    def again(how):
        return launch(k_again, count, TURNS=turns, HOW=how, B=b)
    return Task("again", {"x": normal(b), "o": zero(count, b)}, reference, 1e-4,
                {how: again(how) for how in ("plain", "volatile", "cg")})


# ---- casts ----

@triton.jit
def k_casts(x, o, TURNS: tl.constexpr, BY: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    for _ in range(TURNS):
        v = v * 0.5
        if BY == "fp64":
            v = v.to(tl.float64).to(tl.float32)
        elif BY == "fp16":
            v = v.to(tl.float16).to(tl.float32)
        elif BY == "bf16":
            v = v.to(tl.bfloat16).to(tl.float32)
        elif BY == "fp8e4":
            v = v.to(tl.float8e4nv).to(tl.float32)
        elif BY == "fp8e5":
            v = v.to(tl.float8e5).to(tl.float32)
    tl.store(o + i, v)


def casts_task():
    n, turns = 1 << 20, 16

    def by(name):
        return launch(k_casts, n // 1024, TURNS=turns, BY=name, B=1024)
    return Task("casts", {"x": normal(n), "o": zero(n)}, lambda t: t["x"] * 0.5 ** turns, 1e-3,
                {name: by(name) for name in ("none", "fp64", "fp16", "bf16", "fp8e4", "fp8e5")})


# ---- atomics of many lanes ----

@triton.jit
def k_lanes_meet(x, o, PLACES: tl.constexpr, USED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    old = tl.atomic_add(o + i % PLACES, v, sem="relaxed")
    if USED:
        tl.atomic_add(o + PLACES, tl.sum(old) * 0)


def meet_task(name, dtype, used):
    b, count = 1024, 256

    def places(n):
        return [launch(k_zero, 1, n=2048, B=2048), launch(k_lanes_meet, count, PLACES=n, USED=used, B=b)]

    def reference(t):
        return {}
    return Task(name, {"x": normal(count * b, dtype=dtype) if dtype != I32 else ((count * b,), I32, 8),
                       "o": zero(2048, dtype=dtype)}, reference, 1e-3,
                {f"places_{n}": places(n) for n in (1, 8, 32, 1024)})


TASKS = (within_task, turned_task, walk_task, dots_task, after_task, again_task, casts_task,
         lambda: meet_task("meet_f32", torch.float32, False), lambda: meet_task("meet_f32_used", torch.float32, True),
         lambda: meet_task("meet_i32", I32, False), lambda: meet_task("meet_f64", F64, False))


def make_tasks():
    """Every task by its name."""
    return {task.name: task for task in (make() for make in TASKS)}
