"""A second set of tasks for cost_h200.py (--set cost_holdout): kinds of kernels that none of
cost_tasks.py's tasks has, for a model whose constants were fitted over those. The predictions for
these were written down before the first of them ran on a GPU; nothing is fitted to them.

The tables are as in cost_tasks.py; the kernels are in cost_holdout_row_kernels.py and
cost_holdout_tile_kernels.py.
"""
import torch
from torch.nn import functional

from cost_holdout_row_kernels import *   # every k_...
from cost_holdout_tile_kernels import *
from cost_tasks import BF16, F16, Task, below, launch, normal, zero

I8 = torch.int8


# ---- element-wise ----

def where_task():
    n = 1 << 23
    clamp = dict(n=n, low=-0.5, high=1.0)

    def one(b, warps, apart=False):
        return launch(k_clamp_fill, n // b, warps=warps, filler=-3.0, B=b, APART=apart, **clamp)

    def reference(t):
        return torch.where(t["mask"] != 0, -3.0, t["x"].clamp(-0.5, 1.0) * 1.5 + 0.25)
    return Task("where_chain",
                {"x": normal(n), "mask": below(2, n, dtype=I8), "o": zero(n), "t": zero(n), "u": zero(n)}, reference,
                1e-6, {
        "good": one(1024, 4),
        "tiny": one(32, 1),
        "tiny_idle": one(64, 8),
        "large": one(32768, 4),
        "apart": one(512, 4, True),
        "loop": launch(k_clamp_fill_loop, 132, filler=-3.0, B=1024, **clamp),
        "unfused": [launch(k_clamp, n // 1024, o="t", B=1024, **clamp),
                    launch(k_affine, n // 1024, x="t", o="u", n=n, B=1024),
                    launch(k_fill, n // 1024, x="u", n=n, filler=-3.0, B=1024)],
    })


def adam_task():
    n, rate, beta1, beta2, eps = 1 << 22, 1e-2, 0.9, 0.99, 1e-8
    fix = dict(n=n, rate=rate, fix1=1 - beta1**3, fix2=1 - beta2**3, eps=eps)
    scalars = dict(fix, beta1=beta1, beta2=beta2)
    tensors = {"p": normal(n), "g": normal(n), "m": normal(n), "v": ((n,), torch.float32, "uniform"), "o": zero(n),
               "m1": zero(n), "v1": zero(n)}

    def one(b, warps, apart=False):
        return launch(k_adam, n // b, warps=warps, B=b, APART=apart, **scalars)

    def reference(t):
        m1, v1 = beta1 * t["m"] + (1 - beta1) * t["g"], beta2 * t["v"] + (1 - beta2) * t["g"]**2
        return {"m1": m1, "v1": v1, "o": t["p"] - rate * (m1 / fix["fix1"]) / ((v1 / fix["fix2"]).sqrt() + eps)}
    return Task("adam", tensors, reference, 1e-5, {
        "good": one(1024, 4),
        "tiny": one(32, 1),
        "tiny_idle": one(64, 8),
        "large": one(8192, 4),
        "apart": one(256, 4, True),
        "loop": launch(k_adam_loop, 264, B=512, **scalars),
        "unfused": [launch(k_mix, n // 1024, x="m", o="m1", n=n, beta=beta1, SQUARE=False, B=1024),
                    launch(k_mix, n // 1024, x="v", o="v1", n=n, beta=beta2, SQUARE=True, B=1024),
                    launch(k_adam_step, n // 1024, B=1024, **fix)],
    })


# ---- rows: group norm, gradients of norms and softmax, residual with norm, top-k ----

def group_norm_task():
    images, channels, groups, hw, eps = 128, 64, 8, 1024, 1e-5
    size, count = channels // groups * hw, images * groups
    sizes = dict(GROUPS=groups, SIZE=size, HW=hw)
    tensors = {"x": normal(images, channels, hw), "w": normal(channels), "b": normal(channels),
               "o": zero(images, channels, hw), "mean": zero(count), "scale": zero(count)}

    def block(warps):
        return launch(k_group_norm, count, warps=warps, eps=eps, **sizes)

    def loop(b, warps):
        return launch(k_group_norm_loop, count, warps=warps, eps=eps, B=b, **sizes)
    return Task("group_norm", tensors, lambda t: functional.group_norm(t["x"], groups, t["w"], t["b"], eps), 1e-3, {
        "good": block(8),
        "many_warps": block(32),
        "spill": block(1),
        "loop": loop(1024, 4),
        "tiny_loop": loop(32, 1),
        "idle": loop(64, 8),
        "columns": launch(k_group_norm_columns, count // 32, warps=1, eps=eps, B=32, **sizes),
        "unfused": [launch(k_group_stats, count, eps=eps, SIZE=size, B=1024),
                    launch(k_group_apply, count * size // 1024, B=1024, **sizes)],
    })


def log_softmax_grad_task():
    rows, cols = 4096, 2048
    tensors = {"y": normal(rows, cols, dtype=F16), "g": normal(rows, cols, dtype=F16), "o": zero(rows, cols),
               "e": zero(rows, cols), "s": zero(rows)}

    def block(r, warps):
        return launch(k_log_softmax_grad, rows // r, warps=warps, cols=cols, ROWS=r, B=cols)

    def loop(b, warps):
        return launch(k_log_softmax_grad_loop, rows, warps=warps, cols=cols, B=b)

    def reference(t):
        return t["g"].double() - t["y"].double().exp() * t["g"].double().sum(1, keepdim=True)
    return Task("log_softmax_grad", tensors, reference, 1e-3, {
        "good": block(1, 4),
        "rows4": block(4, 8),
        "spill": block(8, 2),
        "many_warps": block(1, 32),
        "loop": loop(512, 4),
        "tiny_loop": loop(32, 1),
        "columns": launch(k_log_softmax_grad_columns, rows // 64, warps=2, cols=cols, B=64),
        "unfused": [launch(k_exp_of, rows * cols // 1024, B=1024), launch(k_row_total, rows, cols=cols, B=cols),
                    launch(k_log_softmax_grad_join, rows * cols // 1024, cols=cols, B=1024)],
    })


def norm_grad_task():
    rows, cols, parts = 8192, 1024, 64
    tensors = {"x": normal(rows, cols, dtype=BF16), "g": normal(rows, cols, dtype=BF16), "mean": normal(rows),
               "scale": normal(rows), "o": zero(cols), "db": zero(cols), "pw": zero(parts, cols),
               "pb": zero(parts, cols), "t": zero(rows, cols)}

    def part(split, br, bc, warps, **to):
        return launch(k_norm_grad_part, cols // bc, split, warps=warps, rows=rows, cols=cols, SPLIT=split, BR=br, BC=bc,
                      **to)

    def total(x, p):
        return launch(k_total_part, cols // 128, parts, x=x, p=p, rows=rows, cols=cols, SPLIT=parts, BR=16, BC=128)

    def atomic(br, bc, warps):
        return [launch(k_clear, 1, n=cols, B=1024), launch(k_clear, 1, o="db", n=cols, B=1024),
                launch(k_norm_grad_atomic, cols // bc, rows // br, warps=warps, cols=cols, BR=br, BC=bc)]
    join = launch(k_norm_grad_join, cols // 32, cols=cols, PARTS=parts, BC=32)
    direct = dict(pw="o", pb="db")

    def reference(t):
        x, g = (t["x"].double() - t["mean"].double()[:, None]) * t["scale"].double()[:, None], t["g"].double()
        return {"o": (g * x).sum(0), "db": g.sum(0)}
    return Task("norm_grad", tensors, reference, 1e-2, {
        "good": [part(parts, 16, 128, 4), join],
        "narrow_parts": [part(parts, 128, 8, 4), join],
        "few_programs": part(1, 32, 128, 8, **direct),
        "column": part(1, 1024, 1, 4, **direct),
        "serial": part(1, 1, 128, 4, **direct),
        "atomic": atomic(64, 128, 4),
        "atomic_small": atomic(4, 128, 4),
        "unfused": [launch(k_norm_grad_product, rows, cols=cols, B=cols), total("t", "pw"), total("g", "pb"), join],
    })


def add_rms_task():
    rows, cols, eps = 4096, 2048, 1e-6
    tensors = {"x": normal(rows, cols, dtype=BF16), "r": normal(rows, cols, dtype=BF16), "w": normal(cols),
               "h": zero(rows, cols, dtype=BF16), "o": zero(rows, cols, dtype=BF16)}

    def block(r, warps):
        return launch(k_add_rms, rows // r, warps=warps, cols=cols, eps=eps, ROWS=r, B=cols)

    def loop(b, warps):
        return launch(k_add_rms_loop, rows, warps=warps, cols=cols, eps=eps, B=b)

    def reference(t):
        h = t["x"].float() + t["r"].float()
        return {"h": h, "o": functional.rms_norm(h, (cols,), t["w"], eps)}
    return Task("add_rms", tensors, reference, 3e-2, {
        "good": block(1, 4),
        "one_warp": block(1, 1),
        "many_warps": block(1, 32),
        "spill": block(8, 2),
        "loop": loop(512, 4),
        "tiny_loop": loop(32, 1),
        "columns": launch(k_add_rms_columns, rows // 32, warps=1, cols=cols, eps=eps, B=32),
        "unfused": [launch(k_sum_of_two, rows * cols // 1024, B=1024), launch(k_rms, rows, cols=cols, eps=eps, B=cols)],
    })


def topk_task():
    rows, cols, k = 32768, 256, 4

    def block(r, warps, kernel=k_topk):
        return launch(kernel, rows // r, warps=warps, cols=cols, K=k, ROWS=r, B=cols)
    return Task("topk", {"x": normal(rows, cols), "o": zero(rows, k)}, lambda t: t["x"].topk(k, 1).values, 0.0, {
        "good": block(8, 4),
        "row": block(1, 1),
        "row_idle": block(1, 8),
        "large": block(32, 8),
        "spill": block(64, 2),
        "sort": block(8, 4, k_topk_sort),
        "columns": launch(k_topk_columns, rows // 64, warps=2, cols=cols, B=64),
        "rounds": [launch(k_topk_round, rows, warps=1, cols=cols, J=j, K=k, B=cols) for j in range(k)],
    })


# ---- columns: prefix sums ----

def down_task():
    rows, cols, parts = 2048, 4096, 32
    tensors = {"x": normal(rows, cols), "o": zero(rows, cols), "s": zero(parts, cols)}

    def walk(b, warps):
        return launch(k_down_walk, cols // b, warps=warps, rows=rows, cols=cols, B=b)

    def scan(br, bc, warps):
        return launch(k_down_scan, cols // bc, warps=warps, rows=rows, cols=cols, BR=br, BC=bc)

    def two(br, bc, warps):
        return [launch(kernel, cols // bc, parts, warps=warps, rows=rows, cols=cols, SPLIT=parts, BR=br, BC=bc, **to)
                for kernel, to in ((k_total_part, {"p": "s"}), (k_down_join, {}))]
    return Task("down_scan", tensors, lambda t: torch.cumsum(t["x"].double(), 0), 2e-3, {
        "good": two(16, 128, 4),
        "two_narrow": two(64, 8, 4),
        "walk": walk(32, 1),
        "walk_wide": walk(128, 4),
        "scan": scan(64, 32, 4),
        "scan_spill": scan(256, 64, 4),
        "column": scan(2048, 1, 4),
    })


# ---- movement: permutation, scatter, gather of bags, pooling, resizing, convolution ----

def permute_task():
    images, channels, hw = 64, 64, 3136
    n = images * channels * hw
    sizes = dict(C=channels, HW=hw)

    def tile(bc, bh, warps):
        return launch(k_permute, images, channels // bc, -(-hw // bh), warps=warps, BC=bc, BH=bh, **sizes)
    tensors = {"x": normal(images, channels, hw, dtype=F16), "o": zero(images, hw, channels, dtype=F16)}
    return Task("nchw_nhwc", tensors, lambda t: t["x"].transpose(1, 2).contiguous(), 0.0, {
        "good": tile(64, 64, 4),
        "tile32": tile(32, 32, 4),
        "tile8": tile(8, 8, 1),
        "row": tile(1, 1024, 4),
        "large": tile(64, 512, 8),
        "spill": tile(64, 1024, 4),
        "gather": launch(k_permute_gather, n // 1024, B=1024, **sizes),
        "scatter": launch(k_permute_scatter, n // 1024, B=1024, **sizes),
    })


def index_add_task():
    rows, dim, bins = 32768, 128, 256
    tensors = {"x": normal(rows, dim), "ids": below(bins, rows), "o": zero(bins, dim)}
    clear = launch(k_clear, bins * dim // 1024, n=bins * dim, B=1024)

    def block(r, b, warps):
        return [clear, launch(k_index_add, rows // r, dim // b, warps=warps, dim=dim, ROWS=r, B=b)]
    return Task("index_add", tensors, lambda t: torch.zeros_like(t["o"]).index_add_(0, t["ids"], t["x"]), 5e-2, {
        "good": block(8, 128, 4),
        "row": block(1, 128, 1),
        "row_idle": block(1, 128, 8),
        "tiny": block(1, 16, 1),
        "large": block(128, 128, 4),
        "columns": [clear, launch(k_index_add_columns, rows // 128, dim=dim, B=128)],
        "product": [clear, launch(k_index_add_product, bins // 64, 32, rows=rows, dim=dim, BM=64, BK=32, D=128)],
    })


def bag_task():
    bags, many, dim, words = 8192, 16, 256, 32000
    tensors = {"ids": below(words, bags, many), "w": normal(bags, many), "table": normal(words, dim, dtype=F16),
               "o": zero(bags, dim), "t": zero(bags * many, dim, dtype=F16)}

    def block(b, warps):
        return launch(k_bag, bags, dim // b, warps=warps, dim=dim, L=many, B=b)

    def loop(n, b, warps):
        return launch(k_bag_loop, bags // n, dim // b, warps=warps, dim=dim, L=many, BAGS=n, B=b)

    def reference(t):
        return (t["table"][t["ids"].long()].float() * t["w"][:, :, None]).sum(1)
    return Task("embedding_bag", tensors, reference, 1e-3, {
        "good": block(256, 4),
        "loop": loop(1, 256, 2),
        "loop_idle": loop(1, 256, 16),
        "bags8": loop(8, 256, 4),
        "spill": loop(64, 256, 2),
        "tiny": block(16, 1),
        "columns": launch(k_bag_columns, bags // 64, 16, warps=2, dim=dim, L=many, PART=dim // 16, B=64),
        "unfused": [launch(k_bag_gather, bags * many // 8, dim=dim, ROWS=8, B=dim),
                    launch(k_bag_sum, bags, dim=dim, L=many, B=dim)],
    })


def pool_task():
    planes, h, w, oh, ow = 512, 112, 112, 56, 56
    sizes = dict(H=h, W=w, OH=oh, OW=ow)
    tensors = {"x": normal(planes, h, w), "o": zero(planes, oh, ow), "t": zero(planes, h, ow)}

    def tile(br, bc, warps):
        return launch(k_pool, planes, -(-oh // br), -(-ow // bc), warps=warps, BR=br, BC=bc, **sizes)
    return Task("max_pool", tensors, lambda t: functional.max_pool2d(t["x"][None], 3, 2, 1)[0], 0.0, {
        "good": tile(8, 64, 4),
        "row": tile(1, 64, 2),
        "tiny": tile(4, 8, 1),
        "narrow": tile(64, 8, 4),
        "large": tile(64, 64, 4),
        "flat": launch(k_pool_flat, planes * oh * ow // 1024, B=1024, **sizes),
        "planes": launch(k_pool_planes, planes // 64, oh, warps=2, B=64, **sizes),
        "separable": [launch(k_pool_across, planes * h // 8, W=w, OW=ow, ROWS=8, BC=64),
                      launch(k_pool_down, planes, oh // 8, H=h, OH=oh, OW=ow, BR=8, BC=64)],
    })


def resize_task():
    planes, h, w = 512, 64, 64
    n = planes * 4 * h * w
    sizes = dict(H=h, W=w)
    tensors = {"x": normal(planes, h, w), "o": zero(planes, 2 * h, 2 * w), "t": zero(planes, h, 2 * w)}

    def tile(br, bc, warps):
        return launch(k_resize, planes, 2 * h // br, 2 * w // bc, warps=warps, BR=br, BC=bc, **sizes)

    def reference(t):
        return functional.interpolate(t["x"][None], scale_factor=2, mode="bilinear", align_corners=False)[0]
    return Task("resize", tensors, reference, 1e-5, {
        "good": tile(8, 128, 4),
        "row": tile(1, 128, 4),
        "tiny": tile(4, 8, 1),
        "narrow": tile(128, 8, 4),
        "large": tile(128, 128, 4),
        "flat": launch(k_resize_flat, n // 1024, B=1024, **sizes),
        "planes": launch(k_resize_planes, planes // 64, 2 * h, warps=2, B=64, **sizes),
        "separable": [launch(k_resize_across, n // 2 // 1024, W=w, B=1024),
                      launch(k_resize_down, n // 1024, B=1024, **sizes)],
    })


def conv_task():
    batch, channels, length = 4, 1024, 2048
    rows = batch * channels
    sizes = dict(C=channels, T=length)
    tensors = {"x": normal(rows, length, dtype=F16), "w": normal(channels, 4), "bias": normal(channels),
               "o": zero(rows, length, dtype=F16), "u": zero(rows, length)}

    def tile(r, b, warps):
        return launch(k_conv, rows // r, length // b, warps=warps, ROWS=r, B=b, **sizes)

    def reference(t):
        # in double, which no tensor core rounds
        x = functional.pad(t["x"].double().view(batch, channels, length), (3, 0))
        return functional.silu(functional.conv1d(x, t["w"].double()[:, None], t["bias"].double(),
                                                 groups=channels)).view(rows, length)
    return Task("conv1d", tensors, reference, 1e-2, {
        "good": tile(1, 1024, 4),
        "tile": tile(8, 128, 4),
        "tiny": tile(1, 32, 1),
        "idle": tile(1, 128, 16),
        "narrow": tile(128, 8, 4),
        "column": tile(512, 1, 4),
        "large": tile(16, 2048, 4),
        "unfused": [launch(k_conv_tap, rows, length // 1024, J=j, B=1024, **sizes) for j in range(4)]
        + [launch(k_conv_silu, rows, length // 1024, B=1024, **sizes)],
    })


# ---- products ----

def bmm_task():
    batch, m, n, k = 32, 256, 256, 512
    sizes = dict(M=m, N=n, K=k)

    def tile(bm, bn, bk, warps, stages=3, kernel=k_bmm):
        return launch(kernel, n // bn, m // bm, batch, warps=warps, stages=stages, BM=bm, BN=bn, BK=bk, **sizes)
    tensors = {"a": normal(batch, m, k, dtype=BF16), "b": normal(batch, k, n, dtype=BF16),
               "o": zero(batch, m, n, dtype=BF16)}
    return Task("bmm", tensors, lambda t: torch.bmm(t["a"].float(), t["b"].float()), 3e-2, {
        "good": tile(128, 128, 64, 8),
        "tile64": tile(64, 64, 64, 4),
        "tile32": tile(32, 32, 32, 2),
        "tile16": tile(16, 16, 16, 1, 2),
        "whole": tile(256, 256, 32, 8),
        "spill": tile(256, 256, 32, 4, 2),
        "no_pipeline": tile(128, 128, 64, 8, 1),
        "sums": tile(32, 32, 16, 4, 1, k_bmm_sums),
    })


def gemv_task():
    rows, cols = 4096, 8192

    def loop(r, b, warps):
        return launch(k_gemv, rows // r, warps=warps, cols=cols, ROWS=r, B=b)
    tensors = {"a": normal(rows, cols, dtype=F16), "x": normal(cols, dtype=F16), "o": zero(rows)}
    return Task("gemv", tensors, lambda t: t["a"].float() @ t["x"].float(), 1e-2, {
        "good": loop(4, 1024, 4),
        "row": loop(1, 8192, 4),
        "tall": loop(64, 64, 4),
        "tiny_loop": loop(1, 32, 1),
        "idle": loop(1, 64, 8),
        "columns": launch(k_gemv_columns, rows // 32, warps=1, cols=cols, B=32),
        "split": [launch(k_clear, rows // 1024, n=rows, B=1024),
                  launch(k_gemv_split, rows // 8, cols // 512, cols=cols, ROWS=8, B=512)],
        "dot": launch(k_gemv_dot, rows // 64, cols=cols, BM=64, BK=64),
    })


def w8_task():
    m, n, k = 64, 8192, 2048
    sizes = dict(M=m, N=n, K=k)
    tensors = {"x": normal(m, k, dtype=F16), "w": below(127, n, k, dtype=I8), "scale": normal(n), "o": zero(m, n),
               "t": zero(n, k, dtype=F16)}

    def tile(bm, bn, bk, warps, stages=3, kernel=k_w8):
        return launch(kernel, n // bn, m // bm, warps=warps, stages=stages, BM=bm, BN=bn, BK=bk, **sizes)

    def reference(t):
        return t["x"].float() @ (t["w"].float() - 64).t() * t["scale"]
    return Task("w8a16", tensors, reference, 5e-2, {
        "good": tile(64, 64, 128, 4),
        "wide": tile(64, 128, 64, 8),
        "tile32": tile(32, 32, 64, 4),
        "tile16": tile(16, 16, 32, 1, 2),
        "no_pipeline": tile(64, 64, 128, 4, 1),
        "split": [launch(k_clear, m * n // 1024, n=m * n, B=1024),
                  launch(k_w8_split, n // 64, m // 64, 4, SPLIT=4, BM=64, BN=64, BK=128, **sizes)],
        "unfused": [launch(k_w8_widen, n * k // 1024, B=1024), tile(64, 64, 128, 4, 3, k_w16)],
    })


def linear_attention_task():
    heads, s, d = 64, 1024, 64
    chunks = s // 64
    scale = 1 / d
    tensors = {name: normal(heads, s, d, dtype=F16) for name in "qkv"}
    tensors.update(o=zero(heads, s, d), st=zero(heads, chunks, d, d))
    sizes = dict(S=s, scale=scale, D=d)

    def chunk(c, warps):
        return launch(k_linear_chunks, heads, warps=warps, C=c, **sizes)

    def square(bm, bn, warps, whole):
        return launch(k_linear_square, s // bm, heads, warps=warps, WHOLE=whole, BM=bm, BN=bn, **sizes)

    def reference(t):
        return (t["q"].float() @ t["k"].float().transpose(1, 2)).tril() @ t["v"].float() * scale
    return Task("linear_attention", tensors, reference, 2e-2, {
        "parallel": [launch(k_linear_state, chunks, heads, S=s, D=d, C=64),
                     launch(k_linear_before, heads, d * d // 512, chunks=chunks, SIZE=d * d, B=512),
                     launch(k_linear_join, chunks, heads, C=64, **sizes)],
        "chunk64": chunk(64, 4),
        "chunk16": chunk(16, 1),
        "chunk128": chunk(128, 8),
        "square": square(64, 64, 4, False),
        "square_whole": square(64, 64, 4, True),
        "tokens": launch(k_linear_tokens, heads, **sizes),
    })


TASKS = (where_task, adam_task, group_norm_task, log_softmax_grad_task, norm_grad_task, add_rms_task, topk_task,
         down_task, permute_task, index_add_task, bag_task, pool_task, resize_task, conv_task, bmm_task, gemv_task,
         w8_task, linear_attention_task)


def make_tasks():
    """Every task by its name."""
    return {task.name: task for task in (make() for make in TASKS)}
