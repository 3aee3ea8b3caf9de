"""Fixtures of the GPU tests: tapes whose kernels misbehave, with their binaries, made by the compile worker's own code without a GPU.

usage: make_fixtures.py FOLDER [CAPABILITY]

FOLDER/NAME/ gets tape.json, binaries.json (the "binaries" of a runner's load), binaries.bin and expect ("ok" or the fault's code). Input 0 of every tape has 4096
bytes of float32, output 0 as many: input + 1 where the kernel does its work.
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


def kernel_entry(fn, options, target):
    names = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}
    src = ASTSource(fn, names, {(3,): 128}, {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]})
    parsed = ttir_compile.parse_options(src, dict(options), target)
    text = ttir_compile.ttir_text(src, parsed, target)
    entry = {"name": fn.__name__, "ttir": text, "num_warps": parsed.num_warps, "num_stages": parsed.num_stages, "num_ctas": parsed.num_ctas}
    for name, default in (("maxnreg", None), ("enable_fp_fusion", True), ("launch_cooperative_grid", False), ("launch_pdl", False), ("ptx_options", None)):
        if getattr(parsed, name) != default:
            entry[name] = getattr(parsed, name)
    return entry


def tape_of(entry, grid):
    view = {"buffer": 1, "offset": 0, "dtype": "float32", "shape": [N], "stride": [1]}
    row = {"op": "launch", "line": 1, "kernel": 0, "grid": [grid, 1, 1],
           "args": [{"buffer": 0, "offset": 0}, {"buffer": 1, "offset": 0}, {"int": N}]}
    return {"version": 2, "buffers": [{"kind": "input", "bytes": 4 * N, "input": 0}, {"kind": "temp", "bytes": 4 * N}], "kernels": [entry], "rows": [row],
            "outputs": [view], "tuple": False}


def main():
    folder, capability = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 90
    target = ttir_compile.target(capability)
    for i, (name, fn, options, grid, expect) in enumerate(CASES):
        entry = kernel_entry(fn, options, target)
        with tempfile.TemporaryDirectory() as scratch:
            result, cubin = compile_worker.compile_ttir(dict(entry, arch=capability, shared_bytes=SHARED[capability]), scratch)
        place = os.path.join(folder, f"{i:02d} {name}".replace(" ", "_"))
        os.makedirs(place, exist_ok=True)
        for file, content in (("tape.json", json.dumps(tape_of(entry, grid))), ("expect", expect),
                              ("binaries.json", json.dumps([dict(result, offset=0, bytes=len(cubin))]))):
            with open(os.path.join(place, file), "w") as f:
                f.write(content)
        with open(os.path.join(place, "binaries.bin"), "wb") as f:
            f.write(cubin)


if __name__ == "__main__":
    main()
