"""Fixtures of the GPU tests: tapes whose kernels misbehave, with their binaries, made by the
compile worker's own code without a GPU.

usage: make_fixtures.py FOLDER [CAPABILITY]

FOLDER/NAME/ gets tape.json, binaries.json (the "binaries" of a runner's load), binaries.bin and
expect ("ok" or the fault's code). Input 0 of every tape has 4096 bytes of float32, output 0 as
many: input + 1 where the kernel does its work.

FOLDER-timed/NAME/ gets the same files without expect: tapes of one kernel whose time is looked at
(clocks.c, times_beside.py), most of 50 us and more on an H200: kernels that wait for memory and
kernels that compute, in several block sizes.
"""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.dont_write_bytecode = True

import triton
import triton.language as tl
from triton.compiler import ASTSource

import compile as compile_worker
import ttir_compile

N = 1024
SHARED = {80: 166912, 86: 101376, 89: 101376, 90: 232448}


@triton.jit
def add_one(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def beside(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n + 1)


@triton.jit
def before(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i - 1, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def far(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i + (1 << 44), tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def uneven(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    p = (y.to(tl.int64) + 1).to(tl.pointer_type(tl.int32))
    tl.store(p + i, i, mask=i < n - 1)


@triton.jit
def spoil(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v + 1, mask=i < n)
    tl.store(x + i, v - 1, mask=i < 1)


@triton.jit
def endless(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(y, volatile=True)
    while v != 3.0:
        v = tl.load(y, volatile=True)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def trap(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y + i, v.to(tl.float32), mask=i < n)


MARK = tl.constexpr(12345678.0)


@triton.jit
def mark(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < 1024, other=0.0) + tl.where(n == 1024, 1.0, 0.0)
    tl.store(y + i, tl.where(i < 1024, v, MARK), mask=i < n)


@triton.jit
def look(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    begin = (y.to(tl.int64) // 2097152 * 2097152).to(tl.pointer_type(tl.float32))      # what the driver maps at once
    seen = tl.zeros((B,), tl.float32)
    for k in range(0, 524288, B):
        seen += tl.where(tl.load(begin + k + tl.arange(0, B), volatile=True) == MARK, 1.0, 0.0)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1 + tl.sum(seen, 0), mask=i < n)


@triton.jit
def scan(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n) + 1
    for k in range(1, 1 << 20):
        v += tl.load(y + i + k * 524288, volatile=True) * 0
    tl.store(y + i, v, mask=i < n)


@triton.jit
def late(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    for _ in range(20000000):
        v = v * 0.5 + 1.0
    tl.store(y + i, v + 1, mask=i < n)


# name, kernel, options, grid, what must come of it
CASES = [
    ("good", add_one, {}, 8, "ok"),
    ("cluster of two", add_one, {"num_ctas": 2}, 8, "ok"),
    ("cooperative", add_one, {"launch_cooperative_grid": True}, 8, "ok"),
    ("dependent launch", add_one, {"launch_pdl": True}, 8, "ok"),
    ("few registers", add_one, {"maxnreg": 24, "enable_fp_fusion": False, "ptx_options": "-O1"}, 8, "ok"),
    ("writes behind its buffer", beside, {}, 9, "canary"),
    ("writes before its buffer", before, {}, 8, "canary"),
    ("writes far away", far, {}, 8, "out-of-bounds"),
    ("misaligned", uneven, {}, 8, "misaligned"),
    ("writes to its input", spoil, {}, 8, "input-modified"),
    ("never ends", endless, {}, 1, "timeout"),
    ("traps", trap, {}, 8, "gpu-fault"),
    ("too many programs at once", add_one, {"launch_cooperative_grid": True}, 1 << 20, "needs-co-residency"),
]


def same(tape, result, cubin):
    return tape, result, cubin


def leave_marks(tape, result, cubin):
    """A buffer of 1 MiB between input and output, full of marks behind its first numbers."""
    tape["buffers"].append({"kind": "temp", "bytes": 1 << 20})
    first = dict(tape["rows"][0], grid=[2048, 1, 1],
                 args=[{"buffer": 0, "offset": 0}, {"buffer": 2, "offset": 0}, {"int": 1 << 18}])
    tape["rows"][0]["args"][0] = {"buffer": 2, "offset": 0}
    tape["rows"].insert(0, first)
    return tape, result, cubin


def outlive(tape, result, cubin):
    """The slow launch once more, on a stream that nobody waits for."""
    tape["rows"].insert(0, dict(tape["rows"][0], stream=1))
    return tape, result, cubin


def few_arguments(tape, result, cubin):
    tape["rows"][0]["args"].pop()
    return tape, result, cubin


# As CASES, and what is done to tape and binary: none of it comes from our compiler.
FORGED = [
    ("leaves marks", mark, {}, 8, "ok", leave_marks),
    ("looks for marks", look, {}, 8, "ok", same),
    ("scans memory", scan, {}, 8, "out-of-bounds", same),
    ("outlives its trial", late, {}, 8, "wrong", outlive),
    ("noise for a binary", add_one, {}, 8, "bad-binary",
     lambda t, r, c: (t, r, bytes(i * 167 % 251 for i in range(4096)))),
    ("half a binary", add_one, {}, 8, "bad-binary", lambda t, r, c: (t, r, c[:len(c) // 2])),
    ("the name of another kernel", add_one, {}, 8, "bad-binary", lambda t, r, c: (t, dict(r, name="other"), c)),
    ("too few arguments", add_one, {}, 8, "argument", few_arguments),
    ("too many warps", add_one, {}, 8, "argument", lambda t, r, c: (t, dict(r, num_warps=64), c)),
    ("too much shared memory", add_one, {}, 8, "out-of-resources",
     lambda t, r, c: (t, dict(r, shared_bytes=1 << 20), c)),
]


@triton.jit
def chain(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    for _ in range(200):
        v = tl.exp(-v * v) + 0.125
    tl.store(y + i, v, mask=i < n)


@triton.jit
def fmas(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    for _ in range(1000):
        v = v * 0.9999 + 0.5
    tl.store(y + i, v, mask=i < n)


@triton.jit
def row_sum(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    s = tl.zeros((B,), tl.float32)
    for k in range(0, 4096, B):
        s += tl.load(x + row * 4096 + k + tl.arange(0, B))
    tl.store(y + row, tl.sum(s, 0))


@triton.jit
def strided(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = (i % 4096) * (n // 4096) + i // 4096
    tl.store(y + i, tl.load(x + j, mask=i < n), mask=i < n)


M = 1 << 20
# kernel, elements of the input, blocks; outputs have as many elements, those of row_sum one a row
# of 4096
TIMED = [(add_one, n, b) for n in (32 * M, 40 * M, 48 * M, 64 * M) for b in (256, 1024, 4096)] + \
    [(chain, n, b) for n in (2 * M, 3 * M, 4 * M, 8 * M) for b in (256, 512, 1024)] + \
    [(fmas, n, b) for n in (4 * M, 6 * M, 8 * M) for b in (128, 256, 1024)] + \
    [(row_sum, n, b) for n in (56 * M, 60 * M, 64 * M) for b in (512, 2048)] + \
    [(strided, n, b) for n in (16 * M, 32 * M) for b in (256, 1024)] + \
    [(add_one, M // 4, 1024), (chain, M // 64, 128)]


def kernel_entry(fn, options, target, block=128):
    names = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}
    src = ASTSource(fn, names, {(3,): block}, {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]})
    parsed = ttir_compile.parse_options(src, dict(options), target)
    text = ttir_compile.ttir_text(src, parsed, target)
    entry = {"name": fn.__name__, "ttir": text, "num_warps": parsed.num_warps, "num_stages": parsed.num_stages,
             "num_ctas": parsed.num_ctas}
    for name, default in (("maxnreg", None), ("enable_fp_fusion", True), ("launch_cooperative_grid", False),
                          ("launch_pdl", False), ("ptx_options", None)):
        if getattr(parsed, name) != default:
            entry[name] = getattr(parsed, name)
    return entry


def tape_of(entry, grid):
    view = {"buffer": 1, "offset": 0, "dtype": "float32", "shape": [N], "stride": [1]}
    row = {"op": "launch", "line": 1, "kernel": 0, "grid": [grid, 1, 1],
           "args": [{"buffer": 0, "offset": 0}, {"buffer": 1, "offset": 0}, {"int": N}]}
    return {"version": 2, "buffers": [{"kind": "input", "bytes": 4 * N, "input": 0}, {"kind": "temp", "bytes": 4 * N}],
            "kernels": [entry], "rows": [row], "outputs": [view], "tuple": False}


def write_fixture(place, tape, result, cubin):
    os.makedirs(place, exist_ok=True)
    for file, content in (("tape.json", json.dumps(tape)),
                          ("binaries.json", json.dumps([dict(result, offset=0, bytes=len(cubin))]))):
        with open(os.path.join(place, file), "w") as f:
            f.write(content)
    with open(os.path.join(place, "binaries.bin"), "wb") as f:
        f.write(cubin)


def timed_tape(entry, fn, n, block):
    out = n // 4096 if fn is row_sum else n
    tape = tape_of(entry, out if fn is row_sum else (n + block - 1) // block)
    tape["buffers"] = [{"kind": "input", "bytes": 4 * n, "input": 0}, {"kind": "temp", "bytes": 4 * out}]
    tape["rows"][0]["args"][2] = {"int": n}
    tape["outputs"][0]["shape"] = [out]
    return tape


def compiled(entry, capability):
    with tempfile.TemporaryDirectory() as scratch:
        return compile_worker.compile_ttir(dict(entry, arch=capability, shared_bytes=SHARED[capability]), scratch)


def main():
    folder, capability = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 90
    target = ttir_compile.target(capability)
    for i, (name, fn, options, grid, expect, change) in enumerate([(*c, same) for c in CASES] + FORGED):
        entry = kernel_entry(fn, options, target)
        place = os.path.join(folder, f"{i:02d} {name}".replace(" ", "_"))
        write_fixture(place, *change(tape_of(entry, grid), *compiled(entry, capability)))
        with open(os.path.join(place, "expect"), "w") as f:
            f.write(expect)
    made = {}
    for fn, n, block in TIMED:
        if (fn, block) not in made:
            entry = kernel_entry(fn, {}, target, block)
            made[fn, block] = entry, *compiled(entry, capability)
        entry, result, cubin = made[fn, block]
        write_fixture(os.path.join(f"{folder}-timed", f"{fn.__name__}_{n}_{block}"), timed_tape(entry, fn, n, block),
                      result, cubin)


if __name__ == "__main__":
    main()
