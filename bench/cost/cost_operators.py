"""What PyTorch's operators take on a GPU, one by one: the table of src/cost/cost_operators.c (docs/cost-model.md, "The reference").

    bench/cost/cost_operators.py --measure    on a machine with a GPU, some two minutes: writes $OUT/operators.json
    bench/cost/cost_operators.py --fit        reads it and prints the rows of the table
    bench/cost/cost_operators.py --compare    reads it and prints predicted beside measured times, by operator

Each operator is called by itself at sizes of about 2^12 to 2^24 elements (products and convolutions: by their own lists) and timed in CUDA graphs with a cold L2, as
bench/cost/corpus_h200.py times whole forwards: graphs of (flush, operator) less graphs of flushes. What the cost log counts for it is written beside its time, so that --fit
and --compare need neither a GPU nor torch. A Triton kernel that adds two vectors is timed over the same sizes: the model's own scale. None of the shapes is one of
tests/known_good. OUT is build/cost_operators unless the environment sets it.
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "worker")]
sys.dont_write_bytecode = True
START = time.monotonic()
IDLE_US = 0.5         # products that a well-made launch ends this soon after its start are nearly all start
SIZES = [1 << 12, 1 << 16, 1 << 20, 1 << 24]
COLUMNS = {1 << 12: (64, 256), 1 << 16: (128, 1024), 1 << 20: (256, 2048), 1 << 24: (1024, 8192)}   # short rows and long ones
UNARY = """abs acos asin asinh atan bitwise_not ceil cos cosh elu erf exp exp2 expm1 floor gelu hardswish hardsigmoid hardtanh leaky_relu lgamma log log1p log2 log_sigmoid_forward
mish neg reciprocal relu round rsqrt sigmoid silu sin sinh softplus softshrink sqrt tan tanh trunc sign isnan logical_not""".split()
BINARY = "add sub mul div maximum minimum atan2 hypot copysign fmod remainder xlogy pow floor_divide".split()
COMPARE = "eq ne lt le gt ge".split()
IN_PLACE = "add_ mul_ sub_ div_ copy_".split()
UNARY_IN_PLACE = "relu_ sigmoid_ tanh_ silu_ exp_ neg_".split()
INTEGER = "bitwise_and bitwise_or bitwise_xor __lshift__ __rshift__".split()


def cases(torch):
    """(operator's name, label, call) in order; each call dispatches that one operator (views and allocations apart)."""
    aten, found = torch.ops.aten, []

    def case(name, label, op, *args, **kwargs):
        found.append((name, label, lambda: op(*args, **kwargs)))

    for n, cols in ((n, cols) for n in SIZES for cols in COLUMNS[n]):
        x, y = torch.rand(n // cols, cols) + 0.5, torch.rand(n // cols, cols) + 0.5
        integers = torch.randint(0, 100, x.shape)
        size = f"{n} of {cols}"
        for name in UNARY:
            case(name, size, getattr(aten, name), integers if name == "bitwise_not" else x)
        for name in BINARY:
            case(name, size, getattr(aten, name), x, y)
        for name in COMPARE:
            case(name, size, getattr(aten, name), x, y)
        for name in IN_PLACE:
            case(name, size, getattr(aten, name), x.clone(), y)
        for name in UNARY_IN_PLACE:
            case(name, size, getattr(aten, name), x.clone())
        for name in INTEGER:
            case(name, size, getattr(aten, name), integers, integers)
        case("rsub", size, aten.rsub, x, y)
        case("clamp", size, aten.clamp, x, 0.2, 0.9)
        case("clamp_min", size, aten.clamp_min, x, 0.7)
        case("clamp_min_", size, aten.clamp_min_, x.clone(), 0.7)
        case("threshold", size, aten.threshold, x, 0.7, 0.0)
        case("where", size, aten.where, x > 1, x, y)
        case("masked_fill", size, aten.masked_fill, x, y > 1, 0.0)
        case("masked_fill_", size, aten.masked_fill_, x.clone(), y > 1, 0.0)
        case("lerp", size, aten.lerp, x, y, 0.3)
        case("addcmul", size, aten.addcmul, x, y, y)
        case("_to_copy", size, aten._to_copy, x, dtype=torch.float16)
        case("clone", size, aten.clone, x)
        case("clone", size + " transposed", aten.clone, x.t(), memory_format=torch.contiguous_format)
        case("tril", size, aten.tril, x)
        case("triu", size, aten.triu, x)
        case("flip", size, aten.flip, x, [1])
        case("roll", size, aten.roll, x, [3], [1])
        case("repeat", size, aten.repeat, x[: max(n // cols // 2, 1)], [2, 1])
        case("cat", size, aten.cat, [x, y], 1)
        case("stack", size, aten.stack, [x, y])
        case("constant_pad_nd", size, aten.constant_pad_nd, x, [1, 1])
        case("diag_embed", size, aten.diag_embed, x.view(-1)[: max(int(math.isqrt(n)), 1)])
        case("zeros_like", size, aten.zeros_like, x)
        case("ones_like", size, aten.ones_like, x)
        case("fill_", size, aten.fill_, x.clone(), 1.0)
        case("zeros", size, aten.zeros, list(x.shape), device="cuda")
        case("full", size, aten.full, list(x.shape), 2.0, device="cuda")
        case("arange", size, aten.arange, n, device="cuda")
        for name in ("sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "argmax", "argmin", "any", "all"):
            given = (1,) if name in ("prod", "argmax", "argmin", "any", "all") else ([1],)
            case(name, size + " rows", getattr(aten, name), x, *given)
            given = (0,) if name in ("prod", "argmax", "argmin", "any", "all") else ([0],)
            case(name, size + " columns", getattr(aten, name), x, *given)
        case("sum", size + " all", aten.sum, x)
        case("mean", size + " all", aten.mean, x)
        case("max", size + " all", aten.max, x)
        case("min", size + " all", aten.min, x)
        case("max", size + " rows", aten.max, x, 1)
        case("min", size + " rows", aten.min, x, 1)
        case("var_mean", size, aten.var_mean, x, [1])
        case("linalg_vector_norm", size + " rows", aten.linalg_vector_norm, x, 2, [1])
        case("linalg_vector_norm", size + " all", aten.linalg_vector_norm, x)
        case("norm", size, aten.norm, x, 2, [1])
        for name in ("cumsum", "cumprod", "cummax", "logcumsumexp"):
            case(name, size + " rows", getattr(aten, name), x, 1)
            case(name, size + " columns", getattr(aten, name), x, 0)
        case("sort", size, aten.sort, x, 1)
        case("topk", size, aten.topk, x, 8, 1)
        case("_softmax", size + " rows", aten._softmax, x, 1, False)
        case("_softmax", size + " columns", aten._softmax, x, 0, False)
        case("_log_softmax", size, aten._log_softmax, x, 1, False)
        w, b = torch.rand(cols), torch.rand(cols)
        case("native_layer_norm", size, aten.native_layer_norm, x, [cols], w, b, 1e-5)
        if hasattr(aten, "_fused_rms_norm"):
            case("_fused_rms_norm", size, aten._fused_rms_norm, x, [cols], w, 1e-5)
        target = torch.randint(0, cols, (n // cols,))
        case("nll_loss_forward", size, aten.nll_loss_forward, x, target, None, 1, -100)
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"):
            case(name, size, getattr(aten, name), torch.rand(x.shape), torch.rand(x.shape))
        rows_at = torch.randint(0, n // cols, (n // cols,))
        case("embedding", size, aten.embedding, x, rows_at)
        case("index_select", size, aten.index_select, x, 0, rows_at)
        case("index", size, aten.index, x, [rows_at])
        picked = torch.randint(0, cols, x.shape)
        case("gather", size, aten.gather, x, 1, picked)
        case("scatter", size, aten.scatter, x, 1, picked, y)
        case("scatter_", size, aten.scatter_, x.clone(), 1, picked, y)
        case("scatter_add", size, aten.scatter_add, x, 1, picked, y)
        case("scatter_reduce", size, aten.scatter_reduce, x, 1, picked, y, "amax")
        case("index_add", size, aten.index_add, x, 0, rows_at, y)
        case("index_add_", size, aten.index_add_, x.clone(), 0, rows_at, y)
        case("index_copy", size, aten.index_copy, x, 0, torch.randperm(n // cols), y)
        case("index_put_", size, aten.index_put_, x.clone(), [rows_at], y)
        case("bucketize", size, aten.bucketize, x, torch.linspace(0, 2, 64))
        # images: (2, 16, H, W) of about n elements
        side = max(int(math.isqrt(n // 32)), 8)
        image = torch.rand(2, 16, side, side)
        case("native_batch_norm", size, aten.native_batch_norm, image, torch.rand(16), torch.rand(16), torch.zeros(16), torch.ones(16), False, 0.1, 1e-5)
        case("native_batch_norm", size + " training", aten.native_batch_norm, image, torch.rand(16), torch.rand(16), torch.zeros(16), torch.ones(16), True, 0.1, 1e-5)
        case("native_group_norm", size, aten.native_group_norm, image, torch.rand(16), torch.rand(16), 2, 16, side * side, 4, 1e-5)
        case("max_pool2d_with_indices", size, aten.max_pool2d_with_indices, image, [2, 2])
        case("avg_pool2d", size, aten.avg_pool2d, image, [2, 2])
        case("_adaptive_avg_pool2d", size, aten._adaptive_avg_pool2d, image, [4, 4])
        case("upsample_bilinear2d", size, aten.upsample_bilinear2d, image, [2 * side, 2 * side], False)
        case("upsample_nearest2d", size, aten.upsample_nearest2d, image, [2 * side, 2 * side])
        case("pixel_shuffle", size, aten.pixel_shuffle, image, 2)
        case("im2col", size, aten.im2col, image, [3, 3], [1, 1], [1, 1], [1, 1])
        case("reflection_pad2d", size, aten.reflection_pad2d, image, [1, 1, 1, 1])
        deep = max(round((n / 32) ** (1 / 3)), 4)
        volume = torch.rand(2, 16, deep, deep, deep)
        case("max_pool3d_with_indices", size, aten.max_pool3d_with_indices, volume, [2, 2, 2])
        case("avg_pool3d", size, aten.avg_pool3d, volume, [2, 2, 2])
    for m, k, n in ((32, 64, 48), (8, 256, 10), (16, 32, 32), (64, 64, 64), (128, 128, 128), (256, 256, 256), (1024, 512, 1024), (2048, 2048, 2048), (4096, 1024, 64), (64, 4096, 1024)):
        a, b, c = torch.rand(m, k), torch.rand(k, n), torch.rand(n)
        size = f"{m}x{k}x{n}"
        case("mm", size, aten.mm, a, b)
        case("addmm", size, aten.addmm, c, a, b)
        case("mm", size + " half", aten.mm, a.half(), b.half())
        case("addmm", size + " half", aten.addmm, c.half(), a.half(), b.half())
        case("mv", f"{m}x{k}", aten.mv, a, torch.rand(k))
    for batch, m, k, n in ((4, 16, 32, 16), (2, 32, 64, 64), (3, 64, 64, 64), (8, 128, 64, 128), (32, 256, 64, 256), (16, 512, 512, 512)):
        a, b = torch.rand(batch, m, k), torch.rand(batch, k, n)
        case("bmm", f"{batch}x{m}x{k}x{n}", aten.bmm, a, b)
        case("bmm", f"{batch}x{m}x{k}x{n} half", aten.bmm, a.half(), b.half())
        case("baddbmm", f"{batch}x{m}x{k}x{n}", aten.baddbmm, torch.rand(batch, m, n), a, b)
    for batch, channels, out, side, kernel, groups in ((2, 4, 8, 12, 3, 1), (4, 16, 32, 32, 3, 1), (16, 64, 64, 56, 3, 1), (16, 64, 128, 56, 1, 1),
                                                        (2, 8, 8, 16, 3, 8), (8, 32, 32, 64, 3, 32), (16, 64, 64, 112, 5, 64)):
        image, weight = torch.rand(batch, channels, side, side), torch.rand(out, channels // groups, kernel, kernel)
        label = f"{batch}x{channels}x{side}x{side} to {out}, kernel {kernel}, groups {groups}"
        args = ([1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], groups)
        case("convolution", label, aten.convolution, image, weight, torch.rand(out), *args)
        if groups == 1:
            case("convolution", label + " transposed", aten.convolution, image, torch.rand(channels, out, kernel, kernel), torch.rand(out), [1, 1], [kernel // 2] * 2, [1, 1],
                 True, [0, 0], 1)
        heads = torch.rand(batch, side, channels * 8)
        width = channels * 8
        case("_native_multi_head_attention", label, aten._native_multi_head_attention, heads, heads, heads, width, 4, torch.rand(3 * width, width), torch.rand(3 * width),
             torch.rand(width, width), torch.rand(width))
    for batch, channels, length in ((2, 4, 48), (8, 32, 1024)):
        case("convolution", f"1d, {batch}x{channels}x{length}", aten.convolution, torch.rand(batch, channels, length), torch.rand(channels, channels, 3), None, [1], [1], [1],
             False, [0], 1)
        case("convolution", f"3d, {batch}x{channels}", aten.convolution, torch.rand(batch, channels, 8, 8, 8), torch.rand(channels, channels, 3, 3, 3), None, [1] * 3, [1] * 3,
             [1] * 3, False, [0] * 3, 1)
    return found


# ---- measuring (GPU) ----

TRITON_ADD = '''
import triton, triton.language as tl
@triton.jit
def add(x, y, out, N, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < N) + tl.load(y + at, mask=at < N), mask=at < N)
'''


def own_kernels(torch, folder):
    """(label, call): the same addition by a Triton kernel at many sizes, and chains of it."""
    path = os.path.join(folder, "own_kernels.py")
    with open(path, "w") as f:
        f.write(TRITON_ADD)
    import importlib.util
    spec = importlib.util.spec_from_file_location("own_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = []
    for n in (1 << p for p in range(8, 26, 1)):
        x, y, out = torch.rand(n), torch.rand(n), torch.empty(n)
        found.append((f"add {n}", lambda x=x, y=y, out=out, n=n: module.add[(-(-n // 1024),)](x, y, out, n, B=1024)))
    x, y, out = torch.rand(4096), torch.rand(4096), torch.empty(4096)
    for count in (1, 2, 4, 8, 16):
        found.append((f"chain {count}", lambda count=count: [module.add[(4,)](x, y, out, 4096, B=1024) for _ in range(count)]))
    return found


def times_of(torch, clock, call):
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(2):
                call()
        torch.cuda.synchronize()
        cold, spread = clock.cold_us(call, 10, repeats=5)
        return {"cold_us": cold, "cold_spread_us": spread, "warm_us": clock.warm_us(call, 10, repeats=3)}


def measure(options):
    import torch
    import oracle_cost
    from cost_h200 import Clock, machine
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    clock, rows, own = Clock(torch), [], []
    os.makedirs(os.environ["OUT"], exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for label, call in own_kernels(torch, folder):
            own.append({"label": label, **times_of(torch, clock, call)})
    print(f"[{time.monotonic() - START:.1f} s] own kernels", flush=True)
    for name, label, call in cases(torch):
        row = {"name": name, "label": label}
        if time.monotonic() - START > options.seconds:
            row["error"] = "not measured: out of time"
        else:
            try:
                with torch.no_grad(), oracle_cost.OpLog() as log:
                    out = call()
                row["launches"] = oracle_cost.launches(log, oracle_cost.tensors_in(out))[0]
                del out, log
                row |= times_of(torch, clock, call)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
        rows.append(row)
    with open(os.path.join(os.environ["OUT"], "operators.json"), "w") as f:
        json.dump({"machine": machine(torch), "own": own, "operators": rows}, f, indent=0)
    bad = [r for r in rows if "error" in r]
    print(f"[{time.monotonic() - START:.1f} s] {len(rows)} cases, {len(bad)} of them without a time")
    for r in bad:
        print(f"  {r['name']} {r['label']}: {r['error'][:120]}")


# ---- fitting ----

def library():
    """The model as the program has it (src/cost)."""
    import ctypes
    lib = ctypes.CDLL(os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build", "release")), "libhone_vm.so"))
    lib.hone_vm_operator_s.restype = ctypes.c_double
    lib.hone_vm_operator_s.argtypes = [ctypes.c_char_p] * 2 + [ctypes.c_double] * 4 + [ctypes.c_int]
    return lib


def dot_of(label):
    return 2 if label.endswith("half") else 0


def model_us(lib, case, name=None):
    """The table's time of a case, or, without a name, a well-made launch's."""
    l = case["launches"][0]
    names = (name.encode(), l["form"].encode()) if name else (None, None)
    return 1e6 * lib.hone_vm_operator_s(*names, l["bytes"], l["flops"], l["special"], l["dot_flops"], dot_of(case["label"]))


def measured():
    """Cases with a time that dispatched the one operator."""
    with open(os.path.join(os.environ["OUT"], "operators.json")) as f:
        found = json.load(f)
    return [r for r in found["operators"] if "error" not in r and [l["name"] for l in r["launches"]] == [r["name"]]]


def fit(options):
    lib, by_row, products = library(), {}, {}
    nothing = {"launches": [{"bytes": 0, "flops": 0, "special": 0, "dot_flops": 0}], "label": ""}
    for r in measured():
        if r["launches"][0]["dot_flops"]:
            products.setdefault((r["name"], r["launches"][0]["form"]), []).append(r)
        else:
            by_row.setdefault((r["name"], r["launches"][0]["form"]), []).append(r)
    with open(os.path.join(ROOT, "src", "cost", "cost_operators.inc"), "w") as f:
        for (name, form), cases in sorted(by_row.items()):
            by_size = [[c["cold_us"] for c in cases if c["label"].split()[0] == str(n)] for n in SIZES]
            if not all(by_size):
                continue
            us = [statistics.geometric_mean(v) for v in by_size]
            bytes_most = max(c["launches"][0]["bytes"] for c in cases if c["label"].split()[0] == str(SIZES[-1]))
            f.write(f'{{"{name}", "{form}", {bytes_most:.3g}, {{{", ".join(f"{v:.2f}" for v in us)}}}}},\n')
    with open(os.path.join(ROOT, "src", "cost", "cost_products.inc"), "w") as f:
        for (name, form), cases in sorted(products.items(), key=lambda item: (item[0][0] != "mm", item[0])):
            start, slow = {}, {}
            for dot in (0, 2):
                mine = [c for c in cases if dot_of(c["label"]) == dot]
                floor = model_us(lib, nothing)
                idle = [c["cold_us"] for c in mine if model_us(lib, c) < floor + IDLE_US]
                start[dot] = statistics.geometric_mean(idle) if idle else 0
                beyond = [(c["cold_us"] - start[dot], model_us(lib, c) - floor) for c in mine]
                # the work of all shapes together: small ones say little about speed
                slow[dot] = sum(b[0] for b in beyond) / sum(b[1] for b in beyond) if mine else None
            half = 2 if slow[2] else 0
            f.write(f'{{"{name}", "{form}", {{{start[0]:.2f}, {start[0]:.2f}, {start[half]:.2f}}}, {{{slow[0]:.2f}, {slow[0]:.2f}, {slow[half]:.2f}}}}},\n')
    print("wrote src/cost/cost_operators.inc and src/cost/cost_products.inc")


def compare(options):
    lib, ratios = library(), []
    print(f"{'operator':34} {'case':48} {'measured us':>12} {'table us':>9} {'ratio':>6} {'well made us':>13}")
    for c in sorted(measured(), key=lambda c: c["name"]):
        table = model_us(lib, c, c["name"])
        ratios.append(table / c["cold_us"])
        print(f"{c['name']:34} {c['label']:48} {c['cold_us']:12.2f} {table:9.2f} {ratios[-1]:6.2f} {model_us(lib, c):13.2f}")
    ratios.sort()
    print(f"{len(ratios)} cases; table / measured: median {statistics.median(ratios):.2f}, 10 % {ratios[len(ratios) // 10]:.2f}, 90 % {ratios[-1 - len(ratios) // 10]:.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    for flag in ("measure", "fit", "compare"):
        what.add_argument(f"--{flag}", action="store_true")
    p.add_argument("--seconds", type=float, default=150)
    o = p.parse_args()
    os.environ.setdefault("OUT", os.path.join(ROOT, "build", "cost_operators"))
    if o.measure:
        return measure(o)
    return fit(o) if o.fit else compare(o)


if __name__ == "__main__":
    main()
