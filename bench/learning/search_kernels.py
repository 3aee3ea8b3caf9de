"""Tasks and declared kernels of the study of `hone tune` (search.sh).

    search_kernels.py DIR TRAIN

Writes DIR/SPLIT/NAME.task.py and DIR/SPLIT/NAME.kernel.py for the splits train (TRAIN kernels) and
test. A task
maps an element and reduces or normalises its row. A kernel takes several whole rows a program
(ROWS, WARPS), or walks over one row in blocks (BLOCK, WARPS, STAGES). No pair of a map and a row
operator of test is in train, and no row length. A kernel's own
point is drawn, so that it says nothing."""
import os, random, sys

MAPS = {
    "plain": ("x", "v"),
    "relu": ("torch.relu(x)", "tl.maximum(v, 0.0)"),
    "square": ("x * x", "v * v"),
    "sigmoid": ("torch.sigmoid(x)", "tl.sigmoid(v)"),
    "abs": ("torch.abs(x)", "tl.abs(v)"),
    "silu": ("x * torch.sigmoid(x)", "v * tl.sigmoid(v)"),
}
# name: PyTorch's, what a program makes of whole rows, whether a row becomes one number
ROWS = {
    "sum": ("y.sum(dim=1)", "tl.sum(tl.where(mask, v, 0.0), axis=1)", True),
    "mean": ("y.mean(dim=1)", "tl.sum(tl.where(mask, v, 0.0), axis=1) / cols", True),
    "amax": ("y.amax(dim=1)", "tl.max(tl.where(mask, v, float('-inf')), axis=1)", True),
    "softmax": ("torch.softmax(y, dim=1)", None, False),
    "scale": ("y / (y.abs().sum(dim=1, keepdim=True) + 1.0)", None, False),
}
WHOLE = {
    "softmax": """    v = tl.where(mask, v, float("-inf"))
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    r = e / tl.sum(e, axis=1)[:, None]
""",
    "scale": """    v = tl.where(mask, v, 0.0)
    r = v / (tl.sum(tl.abs(v), axis=1)[:, None] + 1.0)
""",
}
WALK = {"sum": ("0.0", "acc + {}", "tl.sum(acc, axis=0)"), "mean": ("0.0", "acc + {}", "tl.sum(acc, axis=0) / cols"),
        "amax": ("float('-inf')", "tl.maximum(acc, {})", "tl.max(acc, axis=0)")}

TASK = """import torch
import torch.nn as nn

ROWS = {rows}
COLS = {cols}

class Model(nn.Module):
    def forward(self, x):
        y = {map}
        return {row}

def get_inputs():
    return [torch.randn(ROWS, COLS)]

def get_init_inputs():
    return []
"""
HEAD = """import torch
import torch.nn as nn
import triton
import triton.language as tl

"""
WHOLE_KERNEL = """# tune: ROWS = 1 | 2 | 4 | 8
# tune: WARPS = 1 | 2 | 4 | 8 | 16
ROWS = {given[ROWS]}
WARPS = {given[WARPS]}

@triton.jit
def k(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)[None, :]
    mask = (row[:, None] < rows) & (i < cols)
    v = tl.load(x_ptr + row[:, None] * cols + i, mask=mask, other=0.0)
    v = {map}
{body}
class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = {out}
        grid = (triton.cdiv(rows, ROWS),)
        k[grid](x, out, rows, cols, ROWS=ROWS, BLOCK=triton.next_power_of_2(cols), num_warps=WARPS)
        return out
"""
WALK_KERNEL = """# tune: BLOCK = 128 | 256 | 512 | 1024
# tune: WARPS = 1 | 2 | 4 | 8
# tune: STAGES = 1 | 3
BLOCK = {given[BLOCK]}
WARPS = {given[WARPS]}
STAGES = {given[STAGES]}

@triton.jit
def k(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.full((BLOCK,), {begin}, tl.float32)
    for at in tl.range(0, cols, BLOCK, num_stages=STAGES):
        i = at + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * cols + i, mask=i < cols, other=0.0)
        acc = {step}
    tl.store(out_ptr + row, {end})

class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows,), device=x.device, dtype=x.dtype)
        k[(rows,)](x, out, cols, BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS)
        return out
"""
STORE_ROW = "    tl.store(out_ptr + row, {}, mask=row < rows)\n"
STORE_ALL = "    tl.store(out_ptr + row[:, None] * cols + i, r, mask=mask)\n"


def whole(name, row, rng):
    _, one, is_number = ROWS[row]
    body = STORE_ROW.format(one) if is_number else WHOLE[row] + STORE_ALL
    out = "torch.empty((rows,), device=x.device, dtype=x.dtype)" if is_number else "torch.empty_like(x)"
    given = {"ROWS": rng.choice((1, 2, 4, 8)), "WARPS": rng.choice((1, 2, 4, 8, 16))}
    return HEAD + WHOLE_KERNEL.format(given=given, map=MAPS[name][1], body=body, out=out)


def walk(name, row, rng):
    begin, step, end = WALK[row]
    fill = "0.0" if row != "amax" else "float('-inf')"
    step = step.format(f"tl.where(i < cols, {MAPS[name][1]}, {fill})")
    given = {"BLOCK": rng.choice((128, 256, 512, 1024)), "WARPS": rng.choice((1, 2, 4, 8)),
             "STAGES": rng.choice((1, 3))}
    return HEAD + WALK_KERNEL.format(given=given, begin=begin, step=step, end=end)


# (form, map, row operator, rows, columns)
TEST = [
    (whole, "silu", "softmax", 1024, 500),
    (whole, "abs", "sum", 4096, 90),
    (whole, "plain", "scale", 512, 1900),
    (walk, "silu", "mean", 512, 3000),
    (walk, "abs", "amax", 1024, 700),
    (walk, "square", "sum", 256, 6000),
]
TRAIN_PAIRS = [("plain", "sum"), ("relu", "softmax"), ("square", "scale"), ("sigmoid", "amax"), ("plain", "softmax"),
               ("square", "mean"), ("sigmoid", "scale"), ("relu", "sum")]
TRAIN_SIZES = [(8192, 40), (4096, 120), (2048, 250), (1024, 400), (512, 1000), (512, 1500), (256, 3500), (128, 5000)]


def train(most):
    """Rounds over all sizes, each round with other operators, so that the first
    ones have every size."""
    found = []
    for turn in range(4):
        for n, size in enumerate(TRAIN_SIZES):
            pair = TRAIN_PAIRS[(n + 3 * turn) % len(TRAIN_PAIRS)]
            walked = [p for p in TRAIN_PAIRS if p[1] in WALK]
            if size[1] < 3000:
                found.append((whole, *pair, *size))
            if size[1] > 300:
                found.append((walk, *walked[(n + turn) % len(walked)], *size))
    return found[:most]


def main():
    rng = random.Random(1)
    for split, kernels in (("train", train(int(sys.argv[2]))), ("test", TEST)):
        os.makedirs(f"{sys.argv[1]}/{split}", exist_ok=True)
        for n, (form, name, row, rows, cols) in enumerate(kernels):
            base = f"{sys.argv[1]}/{split}/{n:02d}-{form.__name__}-{name}-{row}-{cols}"
            with open(base + ".task.py", "w") as f:
                f.write(TASK.format(rows=rows, cols=cols, map=MAPS[name][0], row=ROWS[row][0]))
            with open(base + ".kernel.py", "w") as f:
                f.write(form(name, row, rng))


main()
