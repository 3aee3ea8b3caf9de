"""Tasks and variants for cost_h200.py: the same result by kernels (cost_row_kernels.py,
cost_tile_kernels.py) that are good, uncoalesced, cut too small or too large, recomputing, unfused,
spilling.

A task has tensors (name: shape, dtype, how it is filled), a reference in PyTorch for tensor "o" or
for several by name, how far an element may be from it (relative to 1 + |reference|), and variants
by label. A variant is a launch or a list of them, in order. Shapes are fixed: no variant knows
anything that another one does not.
"""
import torch
from torch.nn import functional

from cost_row_kernels import *   # every k_...
from cost_tile_kernels import *

F32, F16, BF16, I32 = torch.float32, torch.float16, torch.bfloat16, torch.int32


class Launch:
    """One launch. A parameter of the kernel that `args` does not have is the task's tensor of that
    name; an argument that is a string names another tensor."""

    def __init__(self, kernel, grid, args, num_warps=4, num_stages=3):
        self.kernel, self.num_warps, self.num_stages = kernel, num_warps, num_stages
        self.grid = tuple(grid) + (1,) * (3 - len(grid))
        self.args = {p.name: args.get(p.name, p.name) for p in kernel.params}


class Task:
    def __init__(self, name, tensors, reference, tolerance, variants):
        self.name, self.tensors, self.tolerance = name, tensors, tolerance
        self.expected = reference
        self.variants = {label: v if isinstance(v, list) else [v] for label, v in variants.items()}

    def reference(self, tensors):
        """What the outputs must be, by name."""
        outputs = self.expected(tensors)
        return outputs if isinstance(outputs, dict) else {"o": outputs}


def launch(kernel, *grid, warps=4, stages=3, **args):
    return Launch(kernel, grid, args, warps, stages)


def normal(*shape, dtype=F32):
    return shape, dtype, "normal"


def zero(*shape, dtype=F32):
    return shape, dtype, "zero"


def below(limit, *shape, dtype=I32):
    return shape, dtype, limit


def fill(name, spec, seed):
    """One tensor of a task, on the CPU: the same everywhere."""
    shape, dtype, how = spec
    g = torch.Generator().manual_seed(seed)
    if how == "normal":
        return torch.randn(shape, generator=g).to(dtype)
    if how == "uniform":
        return torch.rand(shape, generator=g).to(dtype)
    if how == "zero":
        return torch.zeros(shape, dtype=dtype)
    return torch.randint(0, how, shape, generator=g, dtype=dtype)


# ---- element-wise ----

def add_task():
    n = 1 << 24

    def one(b, warps, apart=False, **args):
        return launch(k_add, n // b, warps=warps, n=n, B=b, APART=apart, **args)
    return Task("add", {"x": normal(n), "y": normal(n), "o": zero(n), "t": zero(n)}, lambda t: t["x"] + t["y"], 1e-6, {
        "good": one(1024, 4),
        "tiny": one(32, 1),
        "tiny_idle": one(32, 4),
        "large": one(32768, 4),
        "apart": one(256, 4, True),
        "apart_large": one(2048, 4, True),
        "loop": launch(k_add_loop, 132, n=n, B=1024),
        "unfused": [launch(k_copy, n // 1024, o="t", n=n, B=1024), one(1024, 4, x="t")],
    })


def gelu_task():
    n = 1 << 24

    def one(b, warps, repeat=1, apart=False):
        return launch(k_gelu, n // b, warps=warps, n=n, zero=0.0, REPEAT=repeat, B=b, APART=apart)
    return Task("gelu", {"x": normal(n, dtype=F16), "o": zero(n, dtype=F16), "e": zero(n)},
                lambda t: functional.gelu(t["x"].float()), 2e-3, {
        "good": one(1024, 4),
        "tiny": one(64, 1),
        "large": one(16384, 4),
        "recompute": one(1024, 4, 8),
        "recompute_more": one(1024, 4, 24),
        "apart": one(256, 4, 1, True),
        "unfused": [launch(k_erf, n // 1024, o="e", n=n, B=1024), launch(k_scale, n // 1024, n=n, B=1024)],
    })


def swiglu_task():
    rows, cols = 4096, 2048
    n = rows * cols
    tensors = {"a": normal(n, dtype=BF16), "b": normal(n, dtype=BF16), "o": zero(n, dtype=BF16), "t": zero(n)}

    def one(b, warps):
        return launch(k_swiglu, n // b, warps=warps, n=n, B=b)
    return Task("swiglu", tensors, lambda t: functional.silu(t["a"].float()) * t["b"].float(), 4e-2, {
        "good": one(1024, 4),
        "small": one(256, 4),
        "tiny": one(32, 1),
        "tiny_idle": one(64, 8),
        "large": one(32768, 8),
        "columns": launch(k_swiglu_columns, rows // 128, cols // 64, rows=rows, cols=cols, B=128),
        "unfused": [launch(k_silu, n // 1024, o="t", n=n, B=1024), launch(k_mul, n // 1024, a="t", n=n, B=1024)],
    })


def philox_uniform(seed, n, device):
    """tl.rand(seed, arange(n)) in PyTorch: Philox 4x32 with 10 rounds, its first word as a number
    in [0, 1)."""
    mask = 0xFFFFFFFF
    c = [torch.arange(n, dtype=torch.int64, device=device)] + [torch.zeros(n, dtype=torch.int64, device=device)] * 3
    k = [seed & mask, seed >> 32 & mask]

    def product(a, b):   # (high, low) words of a 32 by 32 bit product, which int64 does not hold
        low, high = a * (b & 0xFFFF), a * (b >> 16)
        mid = (low >> 16) + (high & 0xFFFF)
        return (high >> 16) + (mid >> 16), (mid << 16 | low & 0xFFFF) & mask
    for _ in range(10):
        h0, l0 = product(c[2], 0xCD9E8D57)
        h1, l1 = product(c[0], 0xD2511F53)
        c = [h0 ^ c[1] ^ k[0], l0, h1 ^ c[3] ^ k[1], l1]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    x = c[0].to(torch.int32)
    return torch.where(x < 0, -x - 1, x).float() * 4.6566127342e-10


def dropout_task():
    n, seed, p = 1 << 23, 12345, 0.25

    def one(b, warps, repeat=1, apart=False):
        return launch(k_dropout, n // b, warps=warps, n=n, seed=seed, zero=0, p=p, REPEAT=repeat, B=b, APART=apart)

    def reference(t):
        return torch.where(philox_uniform(seed, n, t["x"].device) > p, t["x"] / (1 - p), 0.0)
    return Task("dropout", {"x": normal(n), "o": zero(n), "u": zero(n)}, reference, 1e-5, {
        "good": one(1024, 4),
        "tiny": one(32, 1),
        "tiny_idle": one(32, 4),
        "large": one(16384, 4),
        "recompute": one(1024, 4, 5),
        "apart": one(512, 4, 1, True),
        "unfused": [launch(k_rand, n // 1024, n=n, seed=seed, B=1024), launch(k_drop, n // 1024, n=n, p=p, B=1024)],
    })


# ---- rows: softmax, norms, sums, scan, loss ----

def softmax_task():
    rows, cols = 8192, 2048

    def block(r, warps):
        return launch(k_softmax, rows // r, warps=warps, cols=cols, ROWS=r, B=cols)

    def loop(b, warps):
        return launch(k_softmax_loop, rows, warps=warps, cols=cols, B=b)

    def row(kernel, **args):
        return launch(kernel, rows, cols=cols, B=cols, **args)
    return Task("softmax", {"x": normal(rows, cols), "o": zero(rows, cols), "h": zero(rows)},
                lambda t: torch.softmax(t["x"], 1), 1e-5, {
        "good": block(1, 4),
        "rows4": block(4, 8),
        "spill": block(8, 2),
        "one_warp": block(1, 1),
        "many_warps": block(1, 32),
        "loop": loop(512, 4),
        "tiny_loop": loop(32, 1),
        "columns": launch(k_softmax_columns, rows // 64, warps=2, cols=cols, B=64),
        "unfused": [row(k_row_max, o="h"), row(k_row_exp, high="h"), row(k_row_divide, x="o")],
    })


def layernorm_task():
    rows, cols, eps = 8192, 1024, 1e-5
    tensors = {"x": normal(rows, cols, dtype=BF16), "w": normal(cols), "b": normal(cols),
               "o": zero(rows, cols, dtype=BF16), "m": zero(rows), "d": zero(rows, cols)}

    def block(r, warps):
        return launch(k_layernorm, rows // r, warps=warps, cols=cols, eps=eps, ROWS=r, B=cols)

    def loop(b, warps):
        return launch(k_layernorm_loop, rows, warps=warps, cols=cols, eps=eps, B=b)

    def row(kernel, **args):
        return launch(kernel, rows, cols=cols, B=cols, **args)
    return Task("layernorm", tensors, lambda t: functional.layer_norm(t["x"].float(), (cols,), t["w"], t["b"]), 6e-2, {
        "good": block(1, 4),
        "rows4": block(4, 4),
        "spill": block(16, 2),
        "many_warps": block(1, 16),
        "loop": loop(256, 4),
        "tiny_loop": loop(32, 1),
        "columns": launch(k_layernorm_columns, rows // 32, warps=1, cols=cols, eps=eps, B=32),
        "unfused": [row(k_row_mean, o="m"), row(k_row_center, mean="m", o="d"), row(k_row_scale, eps=eps)],
    })


def rmsnorm_task():
    rows, cols, eps = 65536, 128, 1e-6
    tensors = {"x": normal(rows, cols, dtype=F16), "w": normal(cols), "o": zero(rows, cols, dtype=F16), "s": zero(rows)}

    def block(r, warps):
        return launch(k_rmsnorm, rows // r, warps=warps, cols=cols, eps=eps, ROWS=r, B=cols)
    return Task("rmsnorm", tensors, lambda t: functional.rms_norm(t["x"].float(), (cols,), t["w"], eps), 2e-2, {
        "good": block(16, 4),
        "row": block(1, 1),
        "row_idle": block(1, 8),
        "rows4": block(4, 4),
        "large": block(256, 8),
        "spill": block(256, 2),
        "columns": launch(k_rmsnorm_scalar, rows // 128, rows=rows, cols=cols, eps=eps, B=128),
        "unfused": [launch(k_square_mean, rows, warps=1, o="s", cols=cols, B=cols),
                    launch(k_rms_apply, rows, warps=1, cols=cols, eps=eps, B=cols)],
    })


def row_sum_task():
    rows, cols = 2048, 8192

    def loop(b, warps):
        return launch(k_row_sum, rows, warps=warps, cols=cols, B=b)

    def atomic(b, warps):
        return [launch(k_zero, rows // 1024, n=rows, B=1024),
                launch(k_row_sum_atomic, rows, cols // b, warps=warps, cols=cols, B=b)]
    return Task("row_sum", {"x": normal(rows, cols), "o": zero(rows), "p": zero(rows, 8)}, lambda t: t["x"].sum(1),
                2e-3, {
        "good": loop(8192, 8),
        "loop": loop(1024, 4),
        "tiny_loop": loop(32, 1),
        "idle": loop(64, 8),
        "atomic": atomic(1024, 4),
        "atomic_tiny": atomic(32, 1),
        "columns": launch(k_row_sum_columns, rows // 32, warps=1, cols=cols, B=32),
        "two_steps": [launch(k_row_sum_part, rows, 8, o="p", cols=cols, B=1024),
                      launch(k_row_sum, rows, warps=1, x="p", cols=8, B=8)],
    })


def col_sum_task():
    rows, cols = 8192, 2048

    def loop(br, bc, warps):
        return launch(k_col_sum, cols // bc, warps=warps, rows=rows, cols=cols, BR=br, BC=bc)

    def atomic(br, bc, warps):
        return [launch(k_zero, 2, n=cols, B=1024),
                launch(k_col_sum_atomic, cols // bc, rows // br, warps=warps, rows=rows, cols=cols, BR=br, BC=bc)]
    return Task("col_sum", {"x": normal(rows, cols), "o": zero(cols), "p": zero(64, cols)}, lambda t: t["x"].sum(0),
                2e-3, {
        "good": [launch(k_col_sum_part, cols // 128, 64, o="p", rows=rows, cols=cols, SPLIT=64, BR=16, BC=128),
                 launch(k_col_sum, cols // 32, x="p", rows=64, cols=cols, BR=64, BC=32)],
        "few_programs": loop(32, 128, 8),
        "column": loop(1024, 1, 4),
        "narrow": loop(64, 8, 4),
        "serial": loop(1, 128, 4),
        "atomic": atomic(64, 128, 4),
        "atomic_row": atomic(1, 128, 4),
        "atomic_large": atomic(512, 128, 8),
    })


def cumsum_task():
    rows, cols = 4096, 2048

    def block(r, warps):
        return launch(k_cumsum, rows // r, warps=warps, cols=cols, ROWS=r, B=cols)

    def loop(b, warps):
        return launch(k_cumsum_loop, rows, warps=warps, cols=cols, B=b)
    return Task("cumsum", {"x": normal(rows, cols), "o": zero(rows, cols), "s": zero(rows, 8)},
                lambda t: torch.cumsum(t["x"].double(), 1), 2e-3, {
        "good": block(1, 4),
        "one_warp": block(1, 1),
        "many_warps": block(1, 32),
        "spill": block(8, 2),
        "loop": loop(256, 4),
        "tiny_loop": loop(32, 1),
        "columns": launch(k_cumsum_columns, rows // 32, warps=1, cols=cols, B=32),
        "two_steps": [launch(k_block_sum, rows, 8, cols=cols, B=256),
                      launch(k_block_scan, rows, 8, cols=cols, NB=8, B=256)],
    })


def xent_task():
    rows, cols = 2048, 8192
    tensors = {"x": normal(rows, cols, dtype=F16), "y": below(cols, rows), "o": zero(rows), "e": zero(rows, cols),
               "s": zero(rows)}

    def row(kernel, b, warps=4, **args):
        return launch(kernel, rows, warps=warps, cols=cols, B=b, **args)
    return Task("cross_entropy", tensors,
                lambda t: functional.cross_entropy(t["x"].float(), t["y"].long(), reduction="none"), 1e-3, {
        "good": row(k_xent, 8192, 8),
        "spill": row(k_xent, 8192, 1),
        "many_warps": row(k_xent, 8192, 32),
        "online": row(k_xent_loop, 1024, 4),
        "online_tiny": row(k_xent_loop, 64, 2),
        "two_pass": row(k_xent_two_pass, 1024, 4),
        "columns": launch(k_xent_columns, rows // 32, warps=1, cols=cols, B=32),
        "unfused": [launch(k_exp_store, rows * cols // 1024, o="e", n=rows * cols, B=1024),
                    row(k_row_sum, 1024, x="e", o="s"),
                    launch(k_log_pick, rows // 128, cols=cols, B=128)],
    })


# ---- movement: transpose, stencil, gather, histogram, rotary ----

def transpose_task():
    rows, cols = 4096, 2048

    def tile(br, bc, warps):
        return launch(k_transpose, rows // br, cols // bc, warps=warps, rows=rows, cols=cols, BR=br, BC=bc)
    return Task("transpose", {"x": normal(rows, cols), "o": zero(cols, rows)}, lambda t: t["x"].t().contiguous(), 0.0, {
        "good": tile(64, 64, 4),
        "tile32": tile(32, 32, 4),
        "tile8": tile(8, 8, 1),
        "row": tile(1, 1024, 4),
        "column": tile(1024, 1, 4),
        "large": tile(128, 256, 8),
        "spill": tile(256, 256, 4),
    })


def blur_task():
    rows, cols = 2048, 4096

    def tile(br, bc, warps):
        return launch(k_blur, rows // br, cols // bc, warps=warps, rows=rows, cols=cols, BR=br, BC=bc)

    def line(kernel, **args):
        return launch(kernel, rows, cols // 1024, rows=rows, cols=cols, B=1024, **args)
    tensors = {"x": normal(rows, cols), "o": zero(rows, cols), "t": zero(rows, cols)}
    return Task("blur", tensors, lambda t: functional.avg_pool2d(t["x"][None, None], 5, 1, 2)[0, 0], 1e-5, {
        "good": tile(8, 128, 4),
        "row": tile(1, 1024, 4),
        "column": tile(512, 1, 4),
        "tiny": tile(4, 8, 1),
        "large": tile(64, 128, 4),
        "narrow": tile(128, 8, 4),
        "separable": [line(k_blur_across, o="t"), line(k_blur_down, x="t")],
    })


def embed_task():
    tokens, dim, words = 16384, 512, 32000
    tensors = {"ids": below(words, tokens), "table": normal(words, dim, dtype=F16), "o": zero(tokens, dim, dtype=F16)}

    def block(t, b, warps):
        return launch(k_embed, tokens // t, dim // b, warps=warps, dim=dim, TOKENS=t, B=b)
    return Task("embedding", tensors, lambda t: t["table"][t["ids"].long()], 0.0, {
        "good": block(8, 512, 4),
        "row": block(1, 512, 2),
        "row_idle": block(1, 512, 16),
        "tiny": block(1, 16, 1),
        "large": block(64, 512, 4),
        "flat": launch(k_embed_flat, tokens * dim // 1024, dim=dim, n=tokens * dim, B=1024),
        "columns": launch(k_embed_columns, tokens // 128, dim // 64, dim=dim, B=128),
    })


def histogram_task():
    n, bins = 1 << 21, 128
    clear = launch(k_zero, 1, n=bins, B=128)

    def atomic(b, warps):
        return [clear, launch(k_count_atomic, n // b, warps=warps, n=n, B=b)]

    def block(programs, b):
        return [clear, launch(k_count_block, programs, n=n, BINS=bins, B=b)]
    return Task("histogram", {"x": below(bins, n), "o": zero(bins, dtype=I32)},
                lambda t: torch.bincount(t["x"], minlength=bins), 0.0, {
        "good": block(528, 1024),
        "one_block": block(n // 1024, 1024),
        "few": block(32, 1024),
        "tiny": block(n // 128, 128),
        "atomic": atomic(1024, 4),
        "atomic_tiny": atomic(32, 1),
        "compare": [clear, launch(k_count_compare, bins, 16, n=n, B=1024)],
    })


def rope_reference(t):
    x = t["x"].float()
    half = x.shape[-1] // 2
    c, s = t["cos"][:, None], t["sin"][:, None]
    return torch.cat([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], -1)


def rope_task():
    tokens, heads, half = 4096, 16, 64
    n = tokens * heads * half * 2
    tensors = {"x": normal(tokens, heads, 2 * half, dtype=BF16), "cos": normal(tokens, half),
               "sin": normal(tokens, half), "o": zero(tokens, heads, 2 * half, dtype=BF16)}

    def block(h, warps):
        return launch(k_rope, tokens, heads // h, warps=warps, half=half, heads=heads, HEADS=h, B=half)

    def flat(b, warps):
        return launch(k_rope_flat, n // b, warps=warps, half=half, heads=heads, n=n, B=b)
    return Task("rope", tensors, rope_reference, 6e-2, {
        "good": block(16, 4),
        "head": block(1, 1),
        "head_idle": block(1, 8),
        "one_warp": block(16, 1),
        "flat": flat(1024, 4),
        "flat_tiny": flat(32, 1),
        "columns": launch(k_rope_columns, tokens * heads // 64, warps=2, half=half, heads=heads, B=64),
    })


# ---- matrix products ----

def matmul_task(name, m, n, k, dtype, precision, tolerance, tiles):
    """tiles by label: (BM, BN, BK, warps, stages), and the parts of K that are added up with
    atomics where there is a sixth number."""
    sizes = dict(c="o", M=m, N=n, K=k)

    def tiled(bm, bn, bk, warps, stages, parts=0):
        args = dict(sizes, warps=warps, stages=stages, PRECISION=precision, BM=bm, BN=bn, BK=bk)
        if not parts:
            return launch(k_matmul, n // bn, m // bm, **args)
        return [launch(k_zero, m * n // 1024, n=m * n, B=1024),
                launch(k_matmul_split, n // bn, m // bm, parts, SPLIT=parts, **args)]
    variants = {label: tiled(*tile) for label, tile in tiles.items()}
    variants["rows"] = launch(k_matmul_rows, n // 256, m, BN=256, **sizes)
    tensors = {"a": normal(m, k, dtype=dtype), "b": normal(k, n, dtype=dtype), "o": zero(m, n, dtype=dtype)}
    return Task(name, tensors, lambda t: t["a"].double() @ t["b"].double(), tolerance, variants)


def matmul_f16_task():
    return matmul_task("matmul_f16", 1024, 2048, 1024, F16, "tf32", 0.25, {
        "good": (128, 128, 64, 8, 3),
        "tile64": (64, 64, 64, 4, 3),
        "tile32": (32, 32, 32, 4, 3),
        "tile16": (16, 16, 16, 1, 2),
        "no_pipeline": (128, 128, 64, 8, 1),
        "spill": (256, 256, 32, 4, 2),
        "flat_k": (128, 128, 16, 8, 3),
    })


def matmul_tf32_task():
    return matmul_task("matmul_tf32", 1024, 1024, 1024, F32, "tf32", 0.5, {
        "good": (64, 128, 32, 4, 3),
        "tile128": (128, 128, 32, 8, 3),
        "tile32": (32, 32, 32, 4, 3),
        "tile16": (16, 16, 16, 1, 2),
        "no_pipeline": (64, 128, 32, 4, 1),
        "spill": (256, 256, 16, 4, 2),
        "split": (128, 128, 32, 8, 3, 4),
    })


def matmul_f32_task():
    return matmul_task("matmul_f32", 512, 1024, 512, F32, "ieee", 2e-3, {
        "good": (64, 64, 32, 8, 2),
        "tile128": (128, 64, 16, 8, 2),
        "tile32": (32, 32, 32, 4, 2),
        "tile16": (16, 16, 16, 1, 1),
        "few_warps": (64, 64, 16, 2, 2),
        "large": (128, 128, 16, 8, 2),
        "split": (64, 64, 32, 8, 2, 4),
    })


def linear_task():
    m, n, k = 2048, 2048, 256
    tensors = {"a": normal(m, k, dtype=BF16), "b": normal(n, k, dtype=BF16), "bias": normal(n),
               "o": zero(m, n, dtype=BF16), "t": zero(m, n)}

    def product(kernel, bm, bn, bk, warps, stages=3, c="o"):
        return launch(kernel, n // bn, m // bm, warps=warps, stages=stages, c=c, M=m, N=n, K=k, BM=bm, BN=bn, BK=bk)
    return Task("linear_gelu", tensors, lambda t: functional.gelu(t["a"].float() @ t["b"].float().t() + t["bias"]), 0.6,
                {
        "good": product(k_linear_gelu, 128, 128, 64, 8, 3),
        "tile64": product(k_linear_gelu, 64, 64, 64, 4, 3),
        "tile32": product(k_linear_gelu, 32, 32, 32, 2, 2),
        "tile16": product(k_linear_gelu, 16, 16, 16, 1, 1),
        "no_pipeline": product(k_linear_gelu, 64, 64, 32, 4, 1),
        "spill": product(k_linear_gelu, 256, 256, 32, 4, 2),
        "unfused": [product(k_linear, 128, 128, 64, 8, c="t"),
                    launch(k_bias_gelu, m * n // 1024, x="t", cols=n, B=1024)],
    })


def attention_task():
    heads, s, d = 16, 1024, 64
    scale = 1.4426950408889634 / d**0.5
    tensors = {name: normal(heads, s, d, dtype=F16) for name in "qkv"}
    tensors.update(o=zero(heads, s, d, dtype=F16), s=zero(heads, s, s), p=zero(heads, s, s, dtype=F16))

    def flash(bm, bn, warps, stages=3, kernel=k_attention):
        return launch(kernel, s // bm, heads, warps=warps, stages=stages, S=s, scale=scale, D=d, BM=bm, BN=bn)

    def reference(t):
        return torch.softmax(t["q"].float() @ t["k"].float().transpose(1, 2) / d**0.5, -1) @ t["v"].float()
    return Task("attention", tensors, reference, 5e-3, {
        "good": flash(64, 64, 4),
        "tile128": flash(128, 64, 8),
        "tile16": flash(16, 16, 1),
        "narrow": flash(64, 16, 4),
        "no_pipeline": flash(64, 64, 4, 1),
        "spill": flash(256, 128, 4, 2),
        "twice": flash(64, 64, 4, 3, k_attention_twice),
        "unfused": [launch(k_scores, s // 64, s // 64, heads, S=s, scale=scale, D=d, BM=64, BN=64),
                    launch(k_softmax2, heads * s, S=s, B=s),
                    launch(k_weighted, s // 64, heads, S=s, D=d, BM=64, BN=64)],
    })


TASKS = (add_task, gelu_task, swiglu_task, dropout_task, softmax_task, layernorm_task, rmsnorm_task, row_sum_task,
         col_sum_task, cumsum_task, xent_task, transpose_task, blur_task, embed_task, histogram_task, rope_task,
         matmul_f16_task, matmul_tf32_task, matmul_f32_task, linear_task, attention_task)


def make_tasks():
    """Every task by its name."""
    return {task.name: task for task in (make() for make in TASKS)}
