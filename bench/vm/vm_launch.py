"""Microseconds of a launch from Python on the vm, after the first: `hone vm bench/vm/vm_launch.py`
(part of make bench-vm).

Each number is the best of 30 rounds of 200 launches. A compiled kernel, launched by itself, leaves
Triton's specialisation of arguments out.
"""
import time

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def nothing(x, n):
    pass


def best_us(f):
    rounds = []
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(200):
            f()
        rounds.append((time.perf_counter() - start) / 200)
    return min(rounds) * 1e6


x, y, o = torch.randn(1000), torch.randn(1000), torch.empty(1000)
kernel = add.warmup(x, y, o, 1000, B=256, grid=(1,))
add[(1,)](x, y, o, 1000, B=256)
nothing[(1,)](x, 1000)
whole, alone = best_us(lambda: add[(1,)](x, y, o, 1000, B=256)), best_us(lambda: kernel[(1,)](x, y, o, 1000, 256))
print(f"{'launch':24} {'us':>6}")
print(f"{'nothing(x, n)':24} {best_us(lambda: nothing[(1,)](x, 1000)):6.1f}")
print(f"{'add(x, y, o, n), 256':24} {whole:6.1f}   through a compiled kernel {alone:.1f}")
