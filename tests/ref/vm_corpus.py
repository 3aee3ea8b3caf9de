"""Corpus for the vm: Triton kernels as TTIR, with inputs and expected outputs.

    python tests/ref/vm_corpus.py OUT_DIR
        compiles every case without a GPU, writes OUT_DIR/<case>.json, .ttir and .bin
    python tests/ref/vm_corpus.py --interpret OUT_DIR
        runs the same cases on Triton's interpreter, writes OUT_DIR/<case>.interp
    python tests/ref/vm_corpus.py --gpu OUT_DIR
        runs the same cases on a GPU, writes OUT_DIR/<case>.gpu (tests/vm/vm_gpu.c compares)
    ... --random N SEED DIR
        does the same for N random kernels, into DIR
    ... --shard I/N
        every N-th case from the I-th (0 is the first): several processes share the work

Expected values come from PyTorch or NumPy in float64, or from exact integers, with an absolute
tolerance for each element. <case>.json names, for each buffer, its dtype, bytes, and offsets in
<case>.bin of its initial contents, its expected values (float64, or the dtype's own bits where the
result is exact) and the tolerances (float64). The cases are in vm_kernels_*.py; random kernels in
vm_random.py.
"""
import argparse
import json
import os
import sys

INTERPRET = "--interpret" in sys.argv
GPU = "--gpu" in sys.argv
if INTERPRET:
    os.environ["TRITON_INTERPRET"] = "1"   # must be set before Triton is imported

import numpy as np
import torch

torch.set_num_threads(1)

SIGNATURE = {
    torch.float32: "fp32", torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.uint16: "u16", torch.uint32: "u32",
    torch.uint64: "u64", torch.bool: "i1",
}
EPS = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
TINY = {torch.float32: 2.0**-149, torch.float64: 2.0**-1074, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}

CASES = []
COMPILED = {}   # TTIR by kernel, signature and constexprs: sizes are arguments


class Case:
    """args: tensors, numbers and constexprs in the kernel's order; expect: {argument name:
    (expected, tolerance)}; tolerance None means bit-equal."""

    def __init__(self, name, kernel, grid, args, expect, interpret=True, interpret_slack=1.0, grid_note=None,
                 options=None):
        self.name, self.kernel, self.grid, self.args, self.expect = (name, kernel, tuple(grid) + (1,) * (3 - len(grid)),
                                                                     args, expect)
        self.interpret, self.interpret_slack, self.options = interpret, interpret_slack, options or {}


def add(*args, **kwargs):
    CASES.append(Case(*args, **kwargs))


def ulps(expected, dtype, n):
    """n units in the last place of dtype at each expected value (half an ulp is EPS times the
    value's binade, at most EPS * |value| * 2)."""
    return 2 * EPS[dtype] * expected.double().abs() * n + TINY[dtype] * n


def constexpr_names(kernel):
    return [p.name for p in kernel.params if p.is_constexpr]


def to_ttir(case):
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options(case.options)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    # Types as Triton's own launcher would give them to the compiler.
    constexprs = {n: case.args[n] for n in constexpr_names(case.kernel)}
    signature = {}
    for name, value in case.args.items():
        if name in constexprs:
            signature[name] = "constexpr"
        elif isinstance(value, torch.Tensor):
            signature[name] = "*" + SIGNATURE[value.dtype]
        elif isinstance(value, bool):
            signature[name] = "i1"
        elif isinstance(value, int):
            signature[name] = "i32" if -2**31 <= value < 2**31 else "i64"
        else:
            signature[name] = "fp32"
    # Cases that differ in values alone share their IR.
    key = (case.kernel.fn.__name__, case.kernel.fn.__code__, tuple(signature.items()),
           str(sorted(constexprs.items(), key=lambda kv: kv[0])), str(case.options))
    if key in COMPILED:
        return COMPILED[key]
    source = ASTSource(fn=case.kernel, signature=signature, constexprs=constexprs)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(),
                            context)
    COMPILED[key] = str(backend.make_ttir(module, {}, options, 90))
    return COMPILED[key]


def raw(tensor):
    t = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.flatten())
    return t.view(torch.uint8).numpy().tobytes() if t.numel() else b""


def write_case(case, folder):
    names = constexpr_names(case.kernel)
    blob, buffers, args = bytearray(), [], []

    def put(data):
        blob.extend(b"\0" * (-len(blob) % 8))
        blob.extend(data)
        return len(blob) - len(data)

    # Constants are part of the IR; numbers are arguments; tensors are buffers with what is expected
    # of them.
    for name, value in case.args.items():
        if name in names:
            continue
        if not isinstance(value, torch.Tensor):
            args.append({"int": int(value)} if isinstance(value, int) else {"float": float(value)})
            continue
        data = raw(value)
        b = {"name": name, "dtype": str(value.dtype).removeprefix("torch."), "bytes": len(data), "data": put(data)}
        if name in case.expect:
            b["output"] = True
        if case.expect.get(name):   # None: the interpreter's values are the only ones
            expected, tolerance = case.expect[name]
            assert expected.numel() == value.numel(), (case.name, name, expected.shape, value.shape)
            if tolerance is None:
                b["exact"] = put(raw(expected.to(value.dtype)))
            else:
                tolerance = torch.as_tensor(tolerance, dtype=torch.float64).expand(expected.shape)
                b["expected"] = put(raw(expected.double()))
                b["tolerance"] = put(raw(tolerance))
        args.append({"buffer": len(buffers)})
        buffers.append(b)
    with open(os.path.join(folder, case.name + ".ttir"), "w") as f:
        f.write(to_ttir(case))
    with open(os.path.join(folder, case.name + ".bin"), "wb") as f:
        f.write(blob)
    with open(os.path.join(folder, case.name + ".json"), "w") as f:
        json.dump({"name": case.name, "grid": case.grid, "args": args, "buffers": buffers,
                   "interp_slack": case.interpret_slack}, f)


def run_case(case, folder, device, suffix):
    """Outputs as the interpreter or the GPU leaves them, in buffer order, each padded to 8
    bytes."""
    args = {n: (v.clone().to(device) if isinstance(v, torch.Tensor) else v) for n, v in case.args.items()}
    case.kernel[case.grid](**args)
    outputs = [raw(args[name].cpu())
               for name, value in case.args.items() if isinstance(value, torch.Tensor) and name in case.expect]
    with open(os.path.join(folder, case.name + suffix), "wb") as f:
        for data in outputs:
            f.write(data + b"\0" * (-len(data) % 8))


def make_cases(folder, only, shard):
    os.makedirs(folder, exist_ok=True)
    part, parts = map(int, shard.split("/"))
    cases = [c for c in CASES if only in c.name][part::parts]
    assert len({c.name for c in cases}) == len(cases), "two cases of one name"
    failed = 0
    for case in cases:
        try:
            if GPU:
                run_case(case, folder, "cuda", ".gpu")
            elif not INTERPRET:
                write_case(case, folder)
            elif case.interpret:
                with np.errstate(all="ignore"):
                    run_case(case, folder, "cpu", ".interp")
        except Exception as e:
            failed += 1
            print(f"{case.name}: {type(e).__name__}: {str(e)[:2000]}", file=sys.stderr)
    if not GPU:
        with open(os.path.join(folder, "interp.done" if INTERPRET else "cases.txt"), "w") as f:
            f.write("".join(c.name + "\n" for c in cases))
    print(f"{len(cases)} cases, {failed} failed", file=sys.stderr)
    return failed


def main():
    p = argparse.ArgumentParser(description="corpus of kernels for the vm")
    p.add_argument("folder")
    p.add_argument("--interpret", action="store_true",
                   help="run on Triton's interpreter instead of writing TTIR and expectations")
    p.add_argument("--gpu", action="store_true", help="run on a GPU instead")
    p.add_argument("--shard", default="0/1", help="I/N: every N-th case from the I-th")
    p.add_argument("--only", default="", help="cases whose name contains this")
    p.add_argument("--random", nargs=3, metavar=("N", "SEED", "FOLDER"), help="N random kernels too, into FOLDER")
    args = p.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.modules["vm_corpus"] = sys.modules["__main__"]   # the case files import this module for add()
    import vm_kernels_blocks, vm_kernels_control, vm_kernels_elementwise   # each enters its cases
    failed = make_cases(args.folder, args.only, args.shard)
    if args.random:
        import vm_random
        CASES.clear()
        vm_random.make(int(args.random[0]), int(args.random[1]), os.path.join(args.random[2], "source"))
        failed += make_cases(args.random[2], "", args.shard)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
