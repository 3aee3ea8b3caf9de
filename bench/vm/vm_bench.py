"""Time of the vm beside Triton's interpreter and PyTorch on the CPU, one core each, in one run.

    BUILD=build/release build/venv/bin/python bench/vm/vm_bench.py [repeats]

`--check` is the vm with all checks, `replay` with the check for races alone, as the verifier
replays; their cost is beside them. Both run the same kernels over the same inputs (TTIR is compiled
without a GPU). The vm is timed by $BUILD/bench/vm/vm_case_ms (vm_case_ms.c); medians of `repeats`
launches after one warm-up.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

INTERPRET = os.environ.get("TRITON_INTERPRET") == "1"
import torch
import triton
import triton.language as tl

torch.set_num_threads(1)
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
gen = torch.Generator().manual_seed(0)
randn = lambda *s: torch.randn(*s, generator=gen)


@triton.jit
def add_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def gelu_kernel(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(o + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), mask=m)


@triton.jit
def softmax_kernel(x, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < cols
    v = tl.load(x + row * cols + i, mask=m, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + row * cols + i, e / tl.sum(e, 0), mask=m)


@triton.jit
def layernorm_kernel(x, w, b, o, cols, eps, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < cols
    v = tl.load(x + row * cols + i, mask=m, other=0.0)
    mean = tl.sum(v, 0) / cols
    d = tl.where(m, v - mean, 0.0)
    var = tl.sum(d * d, 0) / cols
    tl.store(o + row * cols + i, d * tl.rsqrt(var + eps) * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    pa = a + om[:, None] * K + ok[None, :]
    pb = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=(om[:, None] < M) & (ok[None, :] < K - k * BK), other=0.0)
        y = tl.load(pb, mask=(ok[:, None] < K - k * BK) & (on[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += BK
        pb += BK * N
    tl.store(c + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N))


def cases():
    x, y = randn(65536), randn(65536)
    yield "add 65536", add_kernel, (64,), dict(x=x, y=y, o=torch.zeros(65536), n=65536, B=1024), lambda: x + y
    yield "gelu 65536", gelu_kernel, (64,), dict(x=x, o=torch.zeros(65536), n=65536,
                                                 B=1024), lambda: torch.nn.functional.gelu(x)
    s = randn(256, 1024)
    yield "softmax 256x1024", softmax_kernel, (256,), dict(x=s, o=torch.zeros(256, 1024), cols=1024,
                                                           B=1024), lambda: torch.softmax(s, 1)
    w, b = randn(1024), randn(1024)
    args = dict(x=s, w=w, b=b, o=torch.zeros(256, 1024), cols=1024, eps=1e-5, B=1024)
    yield "layernorm 256x1024", layernorm_kernel, (256,), args, lambda: torch.nn.functional.layer_norm(s, (1024,), w, b)
    p, q = randn(256, 256), randn(256, 256)
    yield "matmul 256^3", matmul_kernel, (4, 4), dict(a=p, b=q, c=torch.zeros(256, 256), M=256, N=256, K=256, BM=64,
                                                      BN=64, BK=32), lambda: p @ q


def median_ms(f, repeats):
    f()
    times = []
    for _ in range(repeats):
        t = time.perf_counter()
        f()
        times.append((time.perf_counter() - t) * 1e3)
    return statistics.median(times)


def interpreter(repeats):
    return {name: median_ms(lambda: kernel[grid](**args), repeats) for name, kernel, grid, args, _ in cases()}


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    if INTERPRET:
        print(json.dumps(interpreter(max(repeats // 7, 3))))
        return
    build = os.environ.get("BUILD", "build/release")
    child = subprocess.run([sys.executable, __file__, str(repeats)], env={**os.environ, "TRITON_INTERPRET": "1"},
                           capture_output=True, text=True, check=True)
    slow = json.loads(child.stdout)
    sys.path.insert(0, "tests/ref")
    import vm_corpus
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'kernel':20} {'vm ms':>9} {'interpreter ms':>15} {'ratio':>8} {'torch cpu ms':>13} "
              f"{'--check ms':>11} {'cost':>6} {'replay ms':>10} {'cost':>6}")
        for i, (name, kernel, grid, args, eager) in enumerate(cases()):
            outputs = {n: None for n in args if n in ("o", "c")}
            vm_corpus.write_case(vm_corpus.Case(f"case{i}", kernel, grid, args, outputs), folder)
            argv = [f"{build}/bench/vm/vm_case_ms", folder, f"case{i}", str(repeats)]
            fast, check, race = (float(subprocess.run(argv + how, capture_output=True, text=True, check=True).stdout)
                                 for how in ([], ["check"], ["race"]))
            print(f"{name:20} {fast:9.3f} {slow[name]:15.2f} {slow[name] / fast:7.0f}x "
                  f"{median_ms(eager, repeats):13.3f} "
                  f"{check:11.3f} {check / fast:5.2f}x {race:10.3f} {race / fast:5.2f}x")


if __name__ == "__main__":
    main()
