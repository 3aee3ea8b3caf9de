"""Microbenchmarks that pin down the constants of docs/cost-model.md, and the check of what wgmma
does with tf32 operands. Used by cost_h200.py --measure."""
import torch
import triton
import triton.language as tl

from cost_tile_kernels import k_matmul


@triton.jit
def k_flush(x, sink, B: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0)
    if v == 1.25:
        tl.store(sink, v)


@triton.jit
def k_empty(x, zero):
    if tl.program_id(0) < zero:
        tl.store(x, 0.0)


@triton.jit
def k_move(x, o, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i))


@triton.jit
def k_again(x, sink, PASSES: tl.constexpr, B: tl.constexpr):
    """Every program reads other programs' blocks: from L2, as long as x fits."""
    total = tl.zeros([B], tl.float32)
    for p in range(PASSES):
        block = (tl.program_id(0) + p * 1031) % tl.num_programs(0)
        total += tl.load(x + block * B + tl.arange(0, B))
    if tl.sum(total, 0) == 1.25:
        tl.store(sink, 1.0)


@triton.jit
def k_stride(x, sink, size, STRIDE: tl.constexpr, PASSES: tl.constexpr, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    for p in range(PASSES):
        at = (tl.program_id(0) * 5023 + p * 1031) % 4096 * B * STRIDE % size
        total += tl.load(x + (at + tl.arange(0, B) * STRIDE) % size)
    if tl.sum(total, 0) == 1.25:
        tl.store(sink, 1.0)


@triton.jit
def k_op(sink, one, OP: tl.constexpr, REPEAT: tl.constexpr, B: tl.constexpr):
    """A chain of one operation on every element; `one` is known at run time only."""
    i = tl.arange(0, B)
    v = i.to(tl.float32) * 1e-4 + one
    n = i
    for _ in range(REPEAT):
        if OP == "fma":
            v = v * one + one
        elif OP == "add":
            v = v + one
        elif OP == "exp2":
            v = tl.exp2(v)
        elif OP == "exp":
            v = tl.exp(v)
        elif OP == "log":
            v = tl.log(v)
        elif OP == "rsqrt":
            v = tl.rsqrt(v)
        elif OP == "sqrt":
            v = tl.sqrt(v)
        elif OP == "sqrt_rn":
            v = tl.sqrt_rn(v)
        elif OP == "div":
            v = one / v
        elif OP == "div_rn":
            v = tl.div_rn(one, v)
        elif OP == "erf":
            v = tl.erf(v)
        elif OP == "sin":
            v = tl.sin(v)
        elif OP == "max":
            v = tl.maximum(v + one, v)
        elif OP == "half":
            v = v.to(tl.float16).to(tl.float32) + one
        elif OP == "bfloat":
            v = v.to(tl.bfloat16).to(tl.float32) + one
        elif OP == "imul":
            n = n * n + 12345
        elif OP == "ixor":
            n = (n ^ (n >> 7)) + 77
        elif OP == "imulhi":
            n = tl.umulhi(n.to(tl.uint32, bitcast=True), 0xCD9E8D57).to(tl.int32, bitcast=True) ^ 77
        elif OP == "idiv":
            n = 1000000007 // (n + 3)
        elif OP == "from_byte":
            n = n + (n.to(tl.int8).to(tl.float32) * one).to(tl.int32, bitcast=True)
        elif OP == "from_int":
            n = n + (n.to(tl.float32) * one).to(tl.int32, bitcast=True)
        elif OP == "to_int":
            n = n + (n.to(tl.float32, bitcast=True) * one).to(tl.int32)
        elif OP == "bits":                   # what the three above are without the conversion
            n = n + (n.to(tl.float32, bitcast=True) * one).to(tl.int32, bitcast=True)
    if tl.sum(v, 0) + tl.sum(n, 0) == 1.25:
        tl.store(sink, 1.0)


@triton.jit
def k_reduce(sink, one, KIND: tl.constexpr, REPEAT: tl.constexpr, B: tl.constexpr):
    v = tl.arange(0, B) * one
    for _ in range(REPEAT):
        if KIND == "sum":
            v = v * 0.5 + tl.sum(v, 0) * 1e-6
        else:
            v = tl.cumsum(v, 0) * 1e-3 + one
    if tl.sum(v, 0) == 1.25:
        tl.store(sink, 1.0)


@triton.jit
def k_chase(x, sink, REPEAT: tl.constexpr):
    p = 0
    for _ in range(REPEAT):
        p = tl.load(x + p)
    tl.store(sink, p)


@triton.jit
def k_atomic(o, SPREAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + i % SPREAD, tl.full([B], 1, o.dtype.element_ty), sem="relaxed")


@triton.jit
def k_dot_once(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(tl.load(a + m[:, None] * K + k[None, :]),
                                                     tl.load(b + k[:, None] * N + n[None, :]), input_precision="tf32"))


@triton.jit
def k_swap(x, sink, one, REPEAT: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """A change of layout through shared memory in every turn."""
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    for _ in range(REPEAT):
        v = tl.reshape(tl.trans(v), (M, N)) * one
    tl.store(sink + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


def truncated(x):
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


def rounded(x):
    """To the nearest of tf32's ten mantissa bits, ties to even."""
    i = x.view(torch.int32)
    return ((i + 0xFFF + ((i >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def tf32_check(m, n, k, warps):
    """b picks one element of a for each output, times a value: a single product, exact in fp32
    whatever the order of the sum. Which operands give what the device says?"""
    g = torch.Generator().manual_seed(7)
    a, pick = torch.randn(m, k, generator=g), torch.randint(0, k, (n,), generator=g)
    b = torch.zeros(k, n)
    b[pick, torch.arange(n)] = torch.randn(n, generator=g)
    c = torch.zeros(m, n, device="cuda")
    k_dot_once[(1,)](a.cuda(), b.cuda(), c, M=m, N=n, K=k, num_warps=warps)
    got = c.cpu()
    result = {"elements": m * n}
    for name, of in (("truncated", truncated), ("rounded", rounded), ("exact", lambda x: x)):
        result[name] = int((got == (of(a).double() @ of(b).double()).float()).sum())
    return result


class Micro:
    """One group of benchmarks in a process of its own: whatever hangs is killed alone, and what was
    measured before it is in the file."""

    def __init__(self, clock, out, save):
        self.clock, self.out, self.save = clock, out, save
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.sink = torch.zeros(1 << 16, device="cuda")

    def note(self, group, key, run):
        try:
            value = run()
        except Exception as error:
            value = f"{type(error).__name__}: {str(error)[:200]}"
        self.out.setdefault(group, {})[str(key)] = value
        self.save(f"{group} {key}: {value}")

    def timed(self, kernel, grid, *args, count=5, **kwargs):
        def run():
            kernel[(grid,)](*args, **kwargs)
        run()
        torch.cuda.synchronize()
        return self.clock.warm_us(run, count, 3)


def tf32(x):
    for m, n, k, w in ((64, 16, 32, 4), (128, 64, 32, 4), (64, 64, 32, 2), (16, 16, 16, 1)):
        x.note("tf32", f"{m}x{n}x{k}, {w} warps", lambda: tf32_check(m, n, k, w))


def launch(x):
    for w in (1, 4, 32):
        for grid in (1, 132, 4096, 65536, 1 << 20):
            x.note("empty_us", f"grid {grid}, {w} warps", lambda: x.timed(k_empty, grid, x.sink, 0, num_warps=w))


def memory(x):
    big, other = torch.zeros(1 << 28, device="cuda"), torch.zeros(1 << 28, device="cuda")
    gib = (1 << 28) * 4
    x.note("dram_bytes_s", "copy", lambda: 2 * gib / x.timed(k_move, 1 << 17, big, other, B=2048, count=3) * 1e6)
    x.note("dram_bytes_s", "read",
           lambda: gib / x.timed(k_flush, 1 << 15, big, x.sink, B=8192, num_warps=8, count=3) * 1e6)
    for mib in (4, 8, 16, 24, 32, 40, 64):
        blocks = mib << 20 >> 13
        x.note("l2_bytes_s", f"{mib} MiB",
               lambda: (mib << 20) * 32 / x.timed(k_again, blocks, big, x.sink, PASSES=32, B=2048, count=3) * 1e6)


def stride(x):
    big = torch.zeros(1 << 22, device="cuda")
    for s in (1, 2, 4, 8, 16, 32):
        x.note("stride_loads_s", s, lambda: x.sms * 16 * 32 * 1024 / x.timed(k_stride, x.sms * 16, big, x.sink, 1 << 21,
            STRIDE=s, PASSES=32, B=1024, count=3) * 1e6)
    for s in (1, 2, 4, 8, 16, 32):
        x.note("stride_loads_l1_s", s, lambda: x.sms * 8 * 128 * 1024 / x.timed(k_stride, x.sms * 8, big, x.sink,
            1 << 13, STRIDE=s, PASSES=128, B=1024, count=3) * 1e6)


def ops(x):
    for op in ("fma", "add", "max", "half", "bfloat", "exp2", "exp", "log", "rsqrt", "sqrt", "div", "erf", "imul",
               "ixor", "imulhi", "sqrt_rn", "div_rn", "sin", "idiv", "from_byte", "from_int", "to_int", "bits"):
        x.note("ops_s", op, lambda: x.sms * 8 * 128 * 2048 / x.timed(k_op, x.sms * 8, x.sink, 1.0, OP=op, REPEAT=128,
                                                                     B=2048, num_warps=8, count=3) * 1e6)


def latency(x):
    for kind in ("sum", "cumsum"):
        for w in (1, 4, 8, 32):
            x.note("reduce_ns", f"{kind}, {w} warps", lambda: x.timed(k_reduce, 1, x.sink, 1.0, KIND=kind, REPEAT=256,
                                                                      B=1024, num_warps=w, count=3) * 1e3 / 256)
    ring = torch.zeros(1 << 28, dtype=torch.int32, device="cuda")
    for name, size in (("64 KiB", 1 << 14), ("8 MiB", 1 << 21), ("1 GiB", 1 << 28)):
        step = min(size // 8 - 32, 1 << 20) | 32
        ring[:size] = ((torch.arange(size, device="cuda", dtype=torch.int64) + step) % size).int()
        x.note("chase_ns", name, lambda: x.timed(k_chase, 1, ring, x.sink.view(torch.int32), REPEAT=1024, num_warps=1,
                                                 count=3) * 1e3 / 1024)


def atomics(x):
    for dtype in (torch.int32, torch.float32):
        o = torch.zeros(1 << 20, dtype=dtype, device="cuda")
        for spread in (1 << 20, 1 << 16, 4096, 128, 32, 1):
            x.note("atomics_s", f"{dtype} over {spread}",
                   lambda: (1 << 20) / x.timed(k_atomic, 1 << 10, o, SPREAD=spread, B=1024, count=2) * 1e6)


# Operands, input_precision, and (BM, BN, BK, warps, stages) of each measurement.
DOTS = (
    (torch.float16, "tf32", ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (64, 64, 64, 4, 3),
                             (64, 64, 64, 2, 3), (32, 32, 32, 4, 3), (32, 32, 32, 1, 3), (16, 16, 16, 1, 3))),
    (torch.float32, "tf32", ((128, 128, 32, 8, 3), (64, 64, 32, 4, 3), (32, 32, 32, 1, 3), (16, 16, 16, 1, 3))),
    (torch.float32, "ieee",
     ((64, 64, 32, 4, 2), (64, 64, 32, 8, 2), (128, 64, 16, 8, 2), (32, 32, 32, 4, 2), (16, 16, 16, 1, 2))),
)


def dots(x):
    size = 2048
    for dtype, precision, shapes in DOTS:
        a, b, c = (torch.zeros(size * size, dtype=dtype, device="cuda") for _ in range(3))
        for m, n, k, w, stages in shapes:
            def rate():
                run = lambda: k_matmul[(size // n, size // m)](a, b, c, size, size, size, PRECISION=precision, BM=m,
                                                               BN=n, BK=k, num_warps=w, num_stages=stages)
                run()
                return 2.0 * size**3 / x.clock.warm_us(run, 3, 3) * 1e6
            x.note("dot_flops_s", f"{dtype} {precision} {m}x{n}x{k}, {w} warps, {stages} stages", rate)


def swap(x):
    big = torch.zeros(1 << 20, device="cuda")
    for m, n, w in ((32, 32, 1), (64, 64, 4), (128, 64, 8)):
        x.note("swap_bytes_s", f"{m}x{n}, {w} warps", lambda: x.sms * 8 * 64 * m * n * 4 / x.timed(k_swap, x.sms * 8,
            big, big, 1.0, REPEAT=64, M=m, N=n, num_warps=w, count=3) * 1e6)


GROUPS = {f.__name__: f for f in (launch, memory, stride, latency, atomics, tf32, ops, dots, swap)}
