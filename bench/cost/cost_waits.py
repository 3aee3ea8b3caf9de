"""A third set of tasks for cost_h200.py (--set cost_waits): kernels that compute the same and wait
differently, so that what a wait is predicted to cost can be measured. Programs that go one after
another beside ones that only meet; sleeps, fences and barriers in assembly; lanes of a warp that go
ways of their own; bins of a histogram; functions in fp64.

The tables are as in cost_tasks.py. Each variant can be launched again and again: what a launch
leaves in locks and counters a first launch clears.
"""
import torch
import triton
import triton.language as tl

from cost_tasks import Task, below, launch, normal, zero

I32 = torch.int32


@triton.jit
def k_zero(o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.zeros([B], o.dtype.element_ty), mask=i < n)


# ---- sums of rows, one program after another or not ----

@triton.jit
def rows_of(x, ROWS: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    return tl.sum(tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :]), 0)


@triton.jit
def add_to(o, part, N: tl.constexpr):
    """A sum that no two programs may make at once."""
    i = o + tl.arange(0, N)
    tl.store(i, tl.load(i) + part)
    tl.debug_barrier()


@triton.jit
def k_rows_meet(x, o, ROWS: tl.constexpr, N: tl.constexpr):
    tl.atomic_add(o + tl.arange(0, N), rows_of(x, ROWS, N))


@triton.jit
def k_rows_lock(x, o, turns, ROWS: tl.constexpr, N: tl.constexpr):
    part = rows_of(x, ROWS, N)
    while tl.atomic_cas(turns, 0, 1) == 1:
        pass
    add_to(o, part, N)
    tl.atomic_xchg(turns, 0)


@triton.jit
def k_rows_flags(x, o, turns, ROWS: tl.constexpr, N: tl.constexpr):
    part = rows_of(x, ROWS, N)
    pid = tl.program_id(0)
    while tl.atomic_add(turns + pid, 0) != pid:
        pass
    add_to(o, part, N)
    tl.atomic_xchg(turns + pid + 1, pid + 1)


@triton.jit
def k_rows_volatile(x, o, turns, ROWS: tl.constexpr, N: tl.constexpr):
    part = rows_of(x, ROWS, N)
    pid = tl.program_id(0)
    while tl.load(turns + pid, volatile=True) != pid:
        pass
    add_to(o, part, N)
    tl.atomic_xchg(turns + pid + 1, pid + 1)


@triton.jit
def k_rows_ticket(x, o, turns, ROWS: tl.constexpr, N: tl.constexpr):
    part = rows_of(x, ROWS, N)
    ticket = tl.atomic_add(turns, 1)
    while tl.atomic_add(turns + 32, 0) != ticket:
        pass
    add_to(o, part, N)
    tl.atomic_add(turns + 32, 1)


@triton.jit
def k_rows_queue(x, o, turns, programs, ROWS: tl.constexpr, N: tl.constexpr):
    """Rows are taken from a counter."""
    part = tl.zeros([N], tl.float32)
    at = tl.atomic_add(turns, 1)
    while at < programs:
        rows = at * ROWS + tl.arange(0, ROWS)
        part += tl.sum(tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :]), 0)
        at = tl.atomic_add(turns, 1)
    tl.atomic_add(o + tl.arange(0, N), part)


def turns_task():
    rows, n, each = 4096, 64, 4
    programs = rows // each
    clear = [launch(k_zero, 1, n=n, B=64), launch(k_zero, 2, o="turns", n=2048, B=1024)]

    def one(kernel, warps=1, grid=programs, **more):
        return clear + [launch(kernel, grid, warps=warps, ROWS=each, N=n, **more)]
    return Task("turns", {"x": normal(rows, n), "o": zero(n), "turns": zero(2048, dtype=I32)}, lambda t: t["x"].sum(0),
                1e-2, {
        "meet": one(k_rows_meet),
        "queue": one(k_rows_queue, grid=132, programs=programs),
        "lock": one(k_rows_lock),
        "lock_4_warps": one(k_rows_lock, 4),
        "flags": one(k_rows_flags),
        "volatile": one(k_rows_volatile),
        "ticket": one(k_rows_ticket),
    })


# ---- assembly that waits ----

@triton.jit
def k_asm(x, o, TEXT: tl.constexpr, TIMES: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    for _ in range(TIMES):
        v = tl.inline_asm_elementwise(TEXT, "=f,f", [v], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(o + i, v)


def waits_task():
    n = 1 << 16

    def text(what, times=16):
        return launch(k_asm, n // 128, TEXT=what + "mov.f32 $0, $1;", TIMES=times, B=128)
    return Task("asm_waits", {"x": normal(n), "o": zero(n)}, lambda t: t["x"], 0, {
        "none": text(""),
        "sleep_200": text("nanosleep.u32 200; "),
        "sleep_5000": text("nanosleep.u32 5000; "),
        "fence_gpu": text("fence.acq_rel.gpu; "),
        "fence_sys": text("fence.acq_rel.sys; "),
        "membar_sys": text("membar.sys; "),
        "bar": text("bar.sync 0; "),
        "rem_u64": text("{ .reg .u64 a, b; mov.b64 a, {$1, $1}; mov.b64 b, {$1, 3}; rem.u64 a, a, b; } "),
        "div_rn": text("{ .reg .f32 a; div.rn.f32 a, $1, 0f40400000; } "),
    })


# ---- lanes that go ways of their own ----

@triton.jit
def turning(v, n):
    q = 1.0 + v * 0.0     # which the compiler does not know to be one
    while n > 0:
        q = q * q
        n -= 1
    return v * q


@triton.jit
def k_lanes(x, o, EVERY: tl.constexpr, TURNS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    turns = tl.where(i % EVERY == 0, TURNS, 1)
    tl.store(o + i, tl.map_elementwise(turning, tl.load(x + i), turns))


def lanes_task():
    n = 1 << 18

    def every(e, turns):
        return launch(k_lanes, n // 512, EVERY=e, TURNS=turns, B=512)
    return Task("lanes", {"x": normal(n), "o": zero(n)}, lambda t: t["x"], 1e-6, {
        "none": every(1, 1),
        "all": every(1, 512),
        "one_of_4": every(4, 512),
        "one_of_32": every(32, 512),
        "one_of_128": every(128, 512),
    })


# ---- histograms, and fp64 ----

@triton.jit
def k_bins(x, o, BINS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.histogram(tl.load(x + i), BINS)
    bin = tl.arange(0, BINS)
    tl.atomic_add(o + bin, h, mask=bin < 32)


def bins_task():
    n = 1 << 20

    def bins(count, b=1024, warps=4):
        return [launch(k_zero, 1, n=32, B=32), launch(k_bins, n // b, warps=warps, BINS=count, B=b)]

    def reference(t):
        return torch.bincount(t["x"], minlength=32).to(I32)
    return Task("bins", {"x": below(32, n, dtype=I32), "o": zero(32, dtype=I32)}, reference, 0, {
        "32": bins(32),
        "256": bins(256),
        "1024": bins(1024),
        "4096": bins(4096),
    })


@triton.jit
def k_wide(x, o, WIDE: tl.constexpr, TIMES: tl.constexpr, WHAT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    y = v.to(tl.float64) if WIDE else v
    for _ in range(TIMES):
        if WHAT == "exp":
            y = tl.exp(-tl.abs(y))
        elif WHAT == "divide":
            y = 1 / (1 + y * y)
        else:
            y = tl.sqrt(1 + y * y) - y
    tl.store(o + i, y.to(tl.float32))


def wide_task(what, step):
    n = 1 << 20

    def one(wide, times):
        return launch(k_wide, n // 512, WIDE=wide, TIMES=times, WHAT=what, B=512)

    def reference(t):
        y = t["x"].double()
        for _ in range(8):
            y = step(y)
        return y.float()
    return Task(f"wide_{what}", {"x": normal(n), "o": zero(n)}, reference, 1e-4,
                {"narrow": one(False, 8), "wide": one(True, 8)})


TASKS = (turns_task, waits_task, lanes_task, bins_task, lambda: wide_task("exp", lambda y: torch.exp(-y.abs())),
         lambda: wide_task("divide", lambda y: 1 / (1 + y * y)),
         lambda: wide_task("root", lambda y: torch.sqrt(1 + y * y) - y))


def make_tasks():
    """Every task by its name."""
    return {task.name: task for task in (make() for make in TASKS)}
