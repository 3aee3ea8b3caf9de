"""What PyTorch's operators take on a GPU, one by one: the table of src/cost/cost_operators.c
(docs/cost-model.md, "The reference").

    bench/cost/cost_operators.py --measure    on a machine with a GPU, some two minutes: writes
                                              $OUT/operators.json
    bench/cost/cost_operators.py --count      without one: what the cost log says of each case,
                                              again
    bench/cost/cost_operators.py --fit        reads it and prints the rows of the table
    bench/cost/cost_operators.py --compare    reads it and prints predicted beside measured times,
                                              by operator

Each operator is called by itself at sizes of about 2^12 to 2^24 elements (products and
convolutions: by their own lists) and timed in CUDA graphs with a cold L2, as
bench/cost/corpus_h200.py times whole forwards: graphs of (flush, operator) less graphs of flushes.
What the cost log counts for it is written beside its time, so that --fit and --compare need neither
a GPU nor torch. A Triton kernel that adds two vectors is timed over the same sizes: the model's own
scale. None of the shapes is one of tests/known_good. OUT is build/cost_operators unless the
environment sets it.
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
SIZES = [1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24]
COLUMNS = {1 << 8: 32, 1 << 12: 64, 1 << 16: 256, 1 << 20: 1024, 1 << 24: 4096}   # of operators that do not care
EXTENTS = [1 << p for p in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 20)]   # of sums and the like
SORTED = [33, 129, 1025, 2049, 4097]                    # one more than one of sort's kernels takes
RUNS = [1, 2, 4, 8, 16, 64, 256, 4096]                  # neighbours of one operand in what cat and stack make
NORM_LEAST = 16                                         # extent of a norm
AGAIN_BYTES = 8 << 20                                   # read twice, with others between
WARM_MAX = 16 << 20                                     # bytes of an operator that is timed with its operands in L2 too
INNER = 256                                             # neighbours that are kept where another dimension is summed
UNARY = """abs acos asin asinh atan bitwise_not ceil cos cosh elu erf exp exp2 expm1 floor gelu
hardswish hardsigmoid hardtanh leaky_relu lgamma log log1p log2 log_sigmoid_forward mish neg
reciprocal relu round rsqrt sigmoid silu sin sinh softplus softshrink sqrt tan tanh trunc sign isnan
logical_not""".split()
BINARY = "add sub mul div maximum minimum atan2 hypot copysign fmod remainder xlogy pow floor_divide".split()
COMPARE = "eq ne lt le gt ge".split()
IN_PLACE = "add_ mul_ sub_ div_ copy_".split()
UNARY_IN_PLACE = "relu_ sigmoid_ tanh_ silu_ exp_ neg_".split()
INTEGER = "bitwise_and bitwise_or bitwise_xor __lshift__ __rshift__".split()


ALONG = """sum mean amax amin prod logsumexp var argmax argmin any all max min var_mean
linalg_vector_norm norm cumsum cumprod cummax logcumsumexp sort topk _softmax
_log_softmax""".split()


def joins(case, aten, torch, n):
    """cat and stack: what they make of runs of each operand in turn, and of whole operands."""
    for run in (r for r in RUNS if 2 * r <= n):
        a, b = torch.rand(n // run // 2, run), torch.rand(n // run // 2, run)
        case("cat", f"{n} by {run}", aten.cat, [a, b], 1)
        case("stack", f"{n} by {run}", aten.stack, [a, b], 1)
    case("cat", f"{n} whole", aten.cat, [a, b], 0)
    case("stack", f"{n} whole", aten.stack, [a, b])


def narrow(case, aten, torch, n):
    """Element-wise operators whose operands are bytes."""
    shape, size = (n // COLUMNS[n], COLUMNS[n]), f"{n}"
    x, y, pixels = torch.rand(shape), torch.rand(shape), torch.randint(0, 200, shape, dtype=torch.uint8)
    case("_to_copy", size + " of bytes", aten._to_copy, pixels, dtype=torch.float32)
    case("_to_copy", size + " of fp8", aten._to_copy, x.to(torch.float8_e4m3fn), dtype=torch.float32)
    for name in ("bitwise_and", "bitwise_or", "__rshift__", "add", "sub"):
        case(name, size + " of bytes", getattr(aten, name), pixels, pixels % 4)
    case("logical_and", size + " of bytes", aten.logical_and, x > 1, y > 1)


def sorts(case, aten, torch, n):
    """sort just beyond what one of its kernels takes: it fills up with nothing."""
    for extent in (e for e in SORTED if e <= n):
        inner = min(max(n // extent, 1), INNER)
        case("sort", f"{n} by {extent} last", aten.sort, torch.rand(max(n // extent, 1), extent), 1)
        case("sort", f"{n} by {extent} other", aten.sort, torch.rand(max(n // extent // inner, 1), extent, inner), 1)


def reductions(case, aten, torch, n):
    """What works along a dimension: along the last one, and along one whose neighbours are kept."""
    for extent in (e for e in EXTENTS if e <= n):
        inner = min(n // extent, INNER)
        last, other = torch.rand(n // extent, extent) + 0.5, torch.rand(n // extent // inner, extent, inner) + 0.5
        for name in ALONG:
            op = getattr(aten, name)
            arguments = op.default._schema.arguments if "default" in op.overloads() else ()
            is_list = any(a.name == "dim" and "List" in str(a.type) for a in arguments)
            for x, form in ((last, "last"), (other, "other")):
                dim = [1] if is_list or name in ("amax", "amin", "logsumexp", "mean", "sum", "var", "var_mean") else 1
                size = f"{n} by {extent} {form}"
                if name == "topk":
                    case(name, size, op, x, min(8, extent), 1)
                elif name in ("linalg_vector_norm", "norm"):
                    case(name, size, op, x, 2, [1])
                elif name in ("_softmax", "_log_softmax"):
                    case(name, size, op, x, 1, False)
                else:
                    case(name, size, op, x, dim)
        w, b = torch.rand(extent), torch.rand(extent)
        case("native_layer_norm", f"{n} by {extent}", aten.native_layer_norm, last, [extent], w, b, 1e-5)
        if hasattr(aten, "_fused_rms_norm"):
            case("_fused_rms_norm", f"{n} by {extent}", aten._fused_rms_norm, last, [extent], w, 1e-5)
        target = torch.randint(0, extent, (n // extent,))
        case("nll_loss_forward", f"{n} by {extent}", aten.nll_loss_forward, last, target, None, 1, -100)
        if NORM_LEAST <= extent <= n // 4:
            # statistics over a group of 4 channels, and over a channel of all samples
            grouped = torch.rand(n // extent // 4, 16, extent // 4) if n >= 16 * extent else torch.rand(1, 16, n // 16)
            images, channels, each = grouped.shape
            group = max(channels * each // extent, 1)
            weights = torch.rand(channels), torch.rand(channels)
            case("native_group_norm", f"{n} by {channels * each // group}", aten.native_group_norm, grouped, *weights,
                 images, channels, each, group, 1e-5)
            wide = torch.rand(max(extent // 64, 1), n // extent, min(extent, 64))
            weights = [make(n // extent) for make in (torch.rand, torch.rand, torch.zeros, torch.ones)]
            case("native_batch_norm", f"{n} by {extent} training", aten.native_batch_norm, wide, *weights, True, 0.1,
                 1e-5)


def products(case, aten, torch):
    """Matrix products over a grid of shapes, and convolutions."""
    edges, depths = (16, 64, 256, 1024, 4096), (32, 128, 512, 2048)
    for m, n, k in ((m, n, k) for m in edges for n in edges for k in depths if m * n * k <= 1 << 33):
        a, b, c, size = torch.rand(m, k), torch.rand(k, n), torch.rand(n), f"{m}x{n} of {k}"
        case("mm", size, aten.mm, a, b)
        case("mm", size + " half", aten.mm, a.half(), b.half())
        if (m, n) in ((16, 64), (64, 64), (256, 256), (1024, 1024), (4096, 64), (64, 4096), (4096, 1024)):
            case("addmm", size, aten.addmm, c, a, b)
            case("addmm", size + " turned", aten.addmm, c, a, torch.rand(n, k).t())
            case("addmm", size + " half", aten.addmm, c.half(), a.half(), b.half())
    for m, n, k in ((m, n, k) for m in (1 << 14, 1 << 16, 1 << 18) for n in (16, 32, 64) for k in (16, 32, 64, 128)):
        a, b, c, size = torch.rand(m, k), torch.rand(k, n), torch.rand(n), f"{m}x{n} of {k}"
        case("mm", size, aten.mm, a, b)
        case("mm", size + " half", aten.mm, a.half(), b.half())
        case("addmm", size, aten.addmm, c, a, torch.rand(n, k).t())
        case("addmm", size + " half", aten.addmm, c.half(), a.half(), b.half())
        case("mm", f"{n}x{k} of {m}", aten.mm, a.t(), torch.rand(m, n))
    for m, k in ((m, k) for m in (64, 1024, 16384) for k in (64, 1024, 16384) if m * k <= 1 << 26):
        case("mv", f"{m} of {k}", aten.mv, torch.rand(m, k), torch.rand(k))
    for batch, edge, k in ((b, e, k) for b in (4, 32, 256, 8192) for e in (16, 64, 256, 1024)
                           for k in (16, 32, 128, 512) if b * e * e <= 1 << 25 and b * e * e * k <= 1 << 33):
        a, b, size = torch.rand(batch, edge, k), torch.rand(batch, k, edge), f"{batch}x{edge}x{edge} of {k}"
        case("bmm", size, aten.bmm, a, b)
        case("bmm", size + " half", aten.bmm, a.half(), b.half())
        case("baddbmm", size, aten.baddbmm, torch.rand(batch, edge, edge), a, b)
    for batch, channels, side, kernel in ((b, c, s, k) for b in (2, 16, 256, 4096) for c in (4, 16, 64, 256)
                                          for s in (12, 28, 56) for k in (1, 3, 5)):
        if 2 * batch * channels ** 2 * side ** 2 * kernel ** 2 > 1 << 35 or batch * channels * side ** 2 > 1 << 26:
            continue
        image, weight = torch.rand(batch, channels, side, side), torch.rand(channels, channels, kernel, kernel)
        args, label = ([1, 1], [kernel // 2] * 2, [1, 1]), f"{batch}x{channels}x{side}x{side}, kernel {kernel}"
        case("convolution", label, aten.convolution, image, weight, torch.rand(channels), *args, False, [0, 0], 1)
        case("convolution", label + " transposed", aten.convolution, image, weight, torch.rand(channels), *args, True,
             [0, 0], 1)
        case("convolution", label + " groups", aten.convolution, image, weight[:, :1].contiguous(),
             torch.rand(channels), *args, False, [0, 0], channels)
    for batch, side, (before, after), kernel in ((b, s, c, k) for b in (4, 64, 512) for s in (24, 60)
                                                 for c in ((3, 16), (3, 48), (12, 32), (48, 24), (32, 128))
                                                 for k in (3, 5)):
        flops, elements = 2 * batch * before * after * side ** 2 * kernel ** 2, batch * max(before, after) * side ** 2
        if flops > 1 << 35 or elements > 1 << 26:
            continue
        image, weight = torch.rand(batch, before, side, side), torch.rand(after, before, kernel, kernel)
        case("convolution", f"{batch}x{before}x{side}x{side} to {after}, kernel {kernel}", aten.convolution, image,
             weight, torch.rand(after), [1, 1], [kernel // 2] * 2, [1, 1],
             False, [0, 0], 1)
    for m, n, k in ((m, n, k) for m in (1 << 12, 1 << 15, 1 << 18) for n in (24, 50, 100) for k in (20, 50, 90)):
        a, b, c, size = torch.rand(m, k), torch.rand(k, n), torch.rand(n), f"{m}x{n} of {k}"
        case("mm", size, aten.mm, a, b)
        case("addmm", size, aten.addmm, c, a, torch.rand(n, k).t())
    for batch, channels, length in ((2, 4, 48), (8, 32, 1024), (64, 64, 4096)):
        case("convolution", f"1d, {batch}x{channels}x{length}", aten.convolution, torch.rand(batch, channels, length),
             torch.rand(channels, channels, 3), None, [1], [1], [1],
             False, [0], 1)
        case("convolution", f"3d, {batch}x{channels}", aten.convolution, torch.rand(batch, channels, 8, 8, 8),
             torch.rand(channels, channels, 3, 3, 3), None, [1] * 3, [1] * 3,
             [1] * 3, False, [0] * 3, 1)


def cases(torch):
    """(operator's name, label, call) in order; each call dispatches that one operator (views and
    allocations apart)."""
    aten, found = torch.ops.aten, []

    def case(name, label, op, *args, **kwargs):
        found.append((name, label, lambda: op(*args, **kwargs)))

    products(case, aten, torch)
    for n, cols in COLUMNS.items():
        x, y = torch.rand(n // cols, cols) + 0.5, torch.rand(n // cols, cols) + 0.5
        integers = torch.randint(0, 100, x.shape)
        size = f"{n}"
        for name in UNARY:
            case(name, size, getattr(aten, name), integers if name == "bitwise_not" else x)
        for name in BINARY:
            case(name, size, getattr(aten, name), x, y)
            case(name, size + " of a row", getattr(aten, name), x, y[0])
        for name in BINARY[:5]:
            case(name, size + " of a column", getattr(aten, name), x, y[:, :1])
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
        case("_to_copy", size + " wider", aten._to_copy, x.half(), dtype=torch.float32)
        case("clone", size, aten.clone, x)
        case("clone", size + " transposed", aten.clone, x.t(), memory_format=torch.contiguous_format)
        case("tril", size, aten.tril, x)
        case("triu", size, aten.triu, x)
        case("flip", size, aten.flip, x, [1])
        case("roll", size, aten.roll, x, [3], [1])
        case("repeat", size, aten.repeat, x[: max(n // cols // 2, 1)], [2, 1])
        joins(case, aten, torch, n)
        narrow(case, aten, torch, n)
        case("constant_pad_nd", size, aten.constant_pad_nd, x, [1, 1])
        case("diag_embed", size, aten.diag_embed, x.view(-1)[: max(int(math.isqrt(n)), 1)])
        case("zeros_like", size, aten.zeros_like, x)
        case("ones_like", size, aten.ones_like, x)
        case("fill_", size, aten.fill_, x.clone(), 1.0)
        case("zeros", size, aten.zeros, list(x.shape), device=x.device)
        case("full", size, aten.full, list(x.shape), 2.0, device=x.device)
        case("arange", size, aten.arange, n, device=x.device)
        case("one_hot", size, lambda at: torch.nn.functional.one_hot(at, cols), torch.randint(0, cols, (n // cols,)))
        for name in ("sum", "mean", "prod", "linalg_vector_norm", "max", "min", "any", "all", "argmax", "argmin",
                     "amax", "amin"):
            case(name, size + " all", getattr(aten, name), x)
        case("var_mean", size + " all", aten.var_mean, x)
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
                     "binary_cross_entropy_with_logits"):
            a, b = torch.rand(x.shape), torch.rand(x.shape)
            more = {"binary_cross_entropy_with_logits": (None, None), "binary_cross_entropy": (None,)}.get(name, ())
            case(name, size, getattr(aten, name), a, b, *more)
            case(name, size + " each", getattr(aten, name), a, b, *more, 0)
        rows_at = torch.randint(0, n // cols, (n // cols,))
        case("embedding", size, aten.embedding, x, rows_at)
        case("index_select", size, aten.index_select, x, 0, rows_at)
        case("index", size, aten.index, x, [rows_at])
        picked = torch.randint(0, cols, x.shape)
        case("gather", size, aten.gather, x, 1, picked)
        case("scatter_add", size, aten.scatter_add, x, 1, picked, y)
        case("scatter_reduce", size, aten.scatter_reduce, x, 1, picked, y, "amax")
        case("index_add", size, aten.index_add, x, 0, rows_at, y)
        case("index_add_", size, aten.index_add_, x.clone(), 0, rows_at, y)
        case("index_copy", size, aten.index_copy, x, 0, torch.randperm(n // cols), y)
        case("index_put_", size, aten.index_put_, x.clone(), [rows_at], y)
        case("bucketize", size, aten.bucketize, x, torch.linspace(0, 2, 64))
        reductions(case, aten, torch, n)
        sorts(case, aten, torch, n)
        # images: (2, 16, H, W) of about n elements
        side = max(int(math.isqrt(n // 32)), 8)
        image = torch.rand(2, 16, side, side)
        case("native_batch_norm", size, aten.native_batch_norm, image, torch.rand(16), torch.rand(16), torch.zeros(16),
             torch.ones(16), False, 0.1, 1e-5)
        case("max_pool2d_with_indices", size, aten.max_pool2d_with_indices, image, [2, 2])
        case("avg_pool2d", size, aten.avg_pool2d, image, [2, 2])
        case("_adaptive_avg_pool2d", size, aten._adaptive_avg_pool2d, image, [4, 4])
        for many in (1 << p for p in (4, 8, 12, 16, 18, 20) if n >> p >= 4):
            wide = torch.rand(many // 16, 16, math.isqrt(n // many), math.isqrt(n // many))
            case("upsample_bilinear2d", f"{n} by {many}", aten.upsample_bilinear2d, wide,
                 [2 * d for d in wide.shape[2:]], False)
        case("upsample_nearest2d", size, aten.upsample_nearest2d, image, [2 * side, 2 * side])
        case("pixel_shuffle", size, aten.pixel_shuffle, image, 2)
        case("im2col", size, aten.im2col, image, [3, 3], [1, 1], [1, 1], [1, 1])
        case("reflection_pad2d", size, aten.reflection_pad2d, image, [1, 1, 1, 1])
        deep = max(round((n / 32) ** (1 / 3)), 4)
        volume = torch.rand(2, 16, deep, deep, deep)
        case("max_pool3d_with_indices", size, aten.max_pool3d_with_indices, volume, [2, 2, 2])
        case("avg_pool3d", size, aten.avg_pool3d, volume, [2, 2, 2])
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
        found.append((f"chain {count}",
                      lambda count=count: [module.add[(4,)](x, y, out, 4096, B=1024) for _ in range(count)]))
    return found


def chain(torch, x, count):
    """The same operator on what the one before it made."""
    for _ in range(count):
        x = torch.ops.aten.sigmoid(x)
    return x


def l2_calls(torch):
    """(label, call): what L2 still holds. Chains of operators of many sizes, and one operator whose
    operand was read before others moved some MiB."""
    found, small = [], torch.rand(AGAIN_BYTES // 4)
    for n in (1 << p for p in range(16, 26)):
        x = torch.rand(n)
        found += [(f"eager chain {count} of {n}", lambda x=x, count=count: chain(torch, x, count))
                  for count in (1, 2, 4, 8)]
    for mib in (8, 16, 32, 48, 64, 96, 128, 192):
        between = torch.rand(mib << 17)           # half of it is read, half written
        before = lambda between=between: (torch.ops.aten.amax(small), torch.ops.aten.sigmoid(between))
        found += [(f"before {mib} MiB", before),
                  (f"again after {mib} MiB", lambda before=before: (before(), torch.ops.aten.amax(small)))]
    return found


def settled(torch, call):
    """Runs it until nothing new is compiled or allocated; its milliseconds."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    call()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b)


def times_of(torch, clock, call, kept, with_warm):
    """Microseconds with a cold L2 and, on demand, right behind itself; those that are kept are not
    measured again."""
    times = {k: kept[k] for k in ("cold_us", "cold_spread_us", "warm_us") if k in kept}
    with torch.no_grad():
        if "cold_us" not in times:
            count, repeats = (10, 5) if settled(torch, call) < 0.5 else (2, 3)
            times["cold_us"], times["cold_spread_us"] = clock.cold_us(call, count, repeats=repeats)
        if with_warm and "warm_us" not in times:
            call()
            times["warm_us"] = clock.warm_us(call, 10, repeats=3)
    return times


def measured_before(options, path):
    if not options.go_on or not os.path.exists(path):
        return [], {}
    with open(path) as f:
        found = json.load(f)
    return found["own"], {(r["name"], r["label"]): r for r in found["operators"] if "cold_us" in r}


def time_own(torch, clock, own):
    """Adds to `own` what it does not have yet of Triton's addition and of what L2 holds."""
    have = {row["label"] for row in own}
    with tempfile.TemporaryDirectory() as folder:
        for label, call in own_kernels(torch, folder) + l2_calls(torch):
            if label not in have:
                own.append({"label": label, **times_of(torch, clock, call, {}, False)})


def time_case(torch, clock, call, kept):
    """The row of one case: what the cost log says of it, and its times. Of a kept one the log's
    words stay too (--count renews them)."""
    import oracle_cost
    row = {"launches": kept["launches"]} if kept.get("launches") else {}
    if not row:
        with torch.no_grad(), oracle_cost.OpLog() as log:
            out = call()
        row["launches"] = oracle_cost.launches(log, oracle_cost.tensors_in(out))[0]
    is_small = sum(l["bytes"] for l in row["launches"]) <= WARM_MAX and not any(l["dot_flops"] for l in row["launches"])
    return row | times_of(torch, clock, call, kept, is_small)


def measure(options):
    import torch
    from cost_h200 import Clock, machine
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    os.makedirs(os.environ["OUT"], exist_ok=True)
    path = os.path.join(os.environ["OUT"], "operators.json")
    own, before = measured_before(options, path)
    clock, rows, said = Clock(torch), [], time.monotonic() - START
    time_own(torch, clock, own)
    print(f"[{time.monotonic() - START:.1f} s] own kernels, from {said:.1f} s on", flush=True)
    late = 0
    for name, label, call in cases(torch):
        row, kept = {"name": name, "label": label}, before.get((name, label), {})
        if time.monotonic() - START > options.seconds:
            late += 1
            row |= kept or {"error": "not measured: out of time"}
        else:
            try:
                row |= time_case(torch, clock, call, kept)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
        rows.append(row)
    with open(path + ".part", "w") as f:
        json.dump({"machine": machine(torch), "own": own, "operators": rows}, f, indent=0)
    os.replace(path + ".part", path)
    bad = [r for r in rows if "error" in r]
    print(f"[{time.monotonic() - START:.1f} s] {len(rows)} cases, {len(bad)} of them without a time; {late} not tried")
    for r in bad:
        print(f"  {r['name']} {r['label']}: {r['error'][:120]}")


def count(options):
    """What the cost log says of each case, again, from shapes alone: the log may have learned since
    the times were measured."""
    import torch
    import oracle_cost
    path = os.path.join(os.environ["OUT"], "operators.json")
    with open(path) as f:
        found = json.load(f)
    rows, changed = {(r["name"], r["label"]): r for r in found["operators"]}, 0
    with torch.device("meta"), torch.no_grad():
        for name, label, call in cases(torch):
            row = rows.get((name, label))
            if not row or "cold_us" not in row:
                continue
            try:
                with oracle_cost.OpLog() as log:
                    out = call()
            except Exception as error:
                print(f"{name} {label}: {type(error).__name__}: {str(error)[:100]}")
                continue
            now = oracle_cost.launches(log, oracle_cost.tensors_in(out))[0]
            if [l["name"] for l in now] == [l["name"] for l in row["launches"]]:
                changed += now != row["launches"]
                row["launches"] = now
    with open(path + ".part", "w") as f:
        json.dump(found, f, indent=0)
    os.replace(path + ".part", path)
    print(f"{changed} of {len(rows)} cases have other counts now")


# ---- fitting ----

def library():
    """The model as the program has it (src/cost)."""
    import ctypes
    lib = ctypes.CDLL(os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build", "release")), "libhone_vm.so"))
    lib.hone_vm_gpu(b"H200")      # on which the rows were measured
    lib.hone_vm_operator_s.restype = ctypes.c_double
    lib.hone_vm_operator_s.argtypes = [ctypes.c_char_p] * 2 + [ctypes.c_double] * 5 + [ctypes.c_int]
    return lib


def dot_of(label):
    return 2 if label.endswith("half") else 0


def model_us(lib, case, name=None):
    """The table's time of a case, or, without a name, a well-made launch's."""
    l = case["launches"][0]
    names = (name.encode(), l["form"].encode()) if name else (None, None)
    return 1e6 * lib.hone_vm_operator_s(*names, l["bytes"], l["flops"], l["special"], l["dot_flops"], l["extent"],
                                        dot_of(case["label"]))


def measured():
    """Cases with a time that dispatched the one operator."""
    with open(os.path.join(os.environ["OUT"], "operators.json")) as f:
        found = json.load(f)
    return [r for r in found["operators"] if "error" not in r and [l["name"] for l in r["launches"]] == [r["name"]]]


def means(cases, value):
    """Of each size the geometric mean over its cases, None where there are none."""
    by_size = [[value(c) for c in cases if c["label"].split()[0] == str(n) and value(c)] for n in SIZES]
    return [statistics.geometric_mean(v) if v else None for v in by_size]


def row_of(cases):
    """(times at SIZES, the share of each with warm operands, bytes at the last), or None where too
    little was timed. Where there are not enough elements for one result, one result; a last size
    that was not timed is the one before, as many times as there are more elements. Warm shares
    beyond what fits L2 are those of the size before."""
    us = means(cases, lambda c: c["cold_us"])
    last = max((i for i, v in enumerate(us) if v), default=-1)
    if last < len(SIZES) - 2:
        return None
    us = [next(v for v in us[i:] if v) for i in range(last + 1)]
    bytes_most = max(c["launches"][0]["bytes"] for c in cases if c["label"].split()[0] == str(SIZES[last]))
    step = SIZES[-1] // SIZES[-2]
    us, bytes_most = us + [us[-1] * step] * (len(SIZES) - 1 - last), bytes_most * step ** (len(SIZES) - 1 - last)
    warm = means(cases, lambda c: min(c["warm_us"] / c["cold_us"], 1) if "warm_us" in c else None)
    known = [i for i, v in enumerate(warm) if v]
    return us, [warm[min(known, key=lambda k: abs(k - i))] if known else 1 for i in range(len(SIZES))], bytes_most


def fit(options):
    lib, by_row, products = library(), {}, []
    for r in measured():
        launch = r["launches"][0]
        if launch["dot_flops"]:
            products.append(r)
        else:
            by_row.setdefault((r["name"], launch["form"], launch["extent"] if " by " in r["label"]
                               and launch["form"] != "all" else 0), []).append(r)
    with open(os.path.join(ROOT, "src", "cost", "cost_operators.inc"), "w") as f:
        for (name, form, extent), cases in sorted(by_row.items()):
            row = row_of(cases)
            if row:
                us, warm, bytes_most = row
                us, warm = (", ".join(f"{v:.2f}" for v in values) for values in (us, warm))
                f.write(f'{{"{name}", "{form}", {extent}, {bytes_most:.3g}, {{{us}}}, {{{warm}}}}},\n')
    with open(os.path.join(ROOT, "src", "cost", "cost_products.inc"), "w") as f:
        for r in sorted(products, key=lambda r: (r["name"] != "mm", r["name"], r["launches"][0]["form"], r["label"])):
            launch, is_half = r["launches"][0], dot_of(r["label"]) == 2
            logs = ", ".join(f"{math.log2(max(launch[k], 1)):.2f}f" for k in ("dot_flops", "bytes", "extent"))
            slower = r["cold_us"] / model_us(lib, r)
            f.write(f'{{"{r["name"]}", "{launch["form"]}", {str(is_half).lower()}, {logs}, {slower:.3f}f}},\n')
    print(f"wrote src/cost/cost_operators.inc and src/cost/cost_products.inc: {len(by_row)} rows and "
          f"{len(products)} products")


def compare(options):
    lib, ratios = library(), []
    print(f"{'operator':34} {'case':48} {'measured us':>12} {'table us':>9} {'ratio':>6} {'well made us':>13}")
    for c in sorted(measured(), key=lambda c: c["name"]):
        table = model_us(lib, c, c["name"])
        ratios.append(table / c["cold_us"])
        print(f"{c['name']:34} {c['label']:48} {c['cold_us']:12.2f} {table:9.2f} {ratios[-1]:6.2f} "
              f"{model_us(lib, c):13.2f}")
    ratios.sort()
    print(f"{len(ratios)} cases; table / measured: median {statistics.median(ratios):.2f}, 10 % "
          f"{ratios[len(ratios) // 10]:.2f}, 90 % {ratios[-1 - len(ratios) // 10]:.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    for flag in ("measure", "count", "fit", "compare"):
        what.add_argument(f"--{flag}", action="store_true")
    p.add_argument("--seconds", type=float, default=150)
    p.add_argument("--go-on", action="store_true", help="keep the times that operators.json has already")
    o = p.parse_args()
    os.environ.setdefault("OUT", os.path.join(ROOT, "build", "cost_operators"))
    if o.measure or o.count:
        return measure(o) if o.measure else count(o)
    return fit(o) if o.fit else compare(o)


if __name__ == "__main__":
    main()
