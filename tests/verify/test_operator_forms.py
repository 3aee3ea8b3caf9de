#!/usr/bin/env python3
"""The form of an operator (worker/oracle_cost.py), by which its time is found: what it works along,
from its arguments and its tensors' strides; how many elements go into one result; what it finds in
L2."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "worker"))
import torch

import oracle_cost

x, vector = torch.rand(6, 5), torch.rand(1, 5)
image, weight, dense = torch.rand(2, 4, 8, 8), torch.rand(4, 1, 3, 3), torch.rand(3, 4, 3, 3)
pixels = torch.randint(0, 9, (6, 5), dtype=torch.uint8)
state = [torch.rand(4) for _ in range(4)]
CASES = [
    ("add", "", 1, lambda: x + x),
    ("add", "broadcast", 1, lambda: x + vector),
    ("sum", "last", 5, lambda: x.sum(1)),
    ("sum", "last", 5, lambda: x.sum(-1)),
    ("sum", "other", 6, lambda: x.sum(0)),
    ("sum", "last", 5, lambda: x.t().sum(0)),
    ("sum", "all", 30, lambda: x.sum()),
    ("sum", "all", 30, lambda: x.sum((0, 1))),
    ("sum", "all", 5, lambda: vector.sum(1)),
    ("sort", "last", 5, lambda: torch.sort(x)),
    ("_softmax", "other", 6, lambda: torch.softmax(x, 0)),
    ("cumsum", "last", 5, lambda: x.cumsum(1)),
    ("clone", "", 1, lambda: x.clone()),
    ("clone", "other", 1, lambda: x.t().contiguous()),
    ("_to_copy", "", 1, lambda: x.half()),
    ("_to_copy", "byte", 1, lambda: pixels.float()),
    ("bitwise_and", "byte", 1, lambda: pixels & pixels),
    ("add", "", 1, lambda: x + pixels),
    ("cat", "all", 30, lambda: torch.cat([x, x])),
    ("cat", "", 5, lambda: torch.cat([x, x], -1)),
    ("stack", "all", 30, lambda: torch.stack([x, x])),
    ("stack", "", 5, lambda: torch.stack([x, x], 1)),
    ("stack", "", 1, lambda: torch.stack([x, x], -1)),
    ("native_layer_norm", "", 5, lambda: torch.nn.functional.layer_norm(x, [5])),
    ("native_group_norm", "", 128, lambda: torch.nn.functional.group_norm(image, 2)),
    ("mm", "", 5, lambda: x @ x.t()),
    ("convolution", "", 36, lambda: torch.nn.functional.conv2d(image, dense)),
    ("convolution", "groups", 9, lambda: torch.nn.functional.conv2d(image, weight, groups=4)),
    ("convolution", "transposed", None, lambda: torch.nn.functional.conv_transpose2d(image, dense.transpose(0, 1))),
    ("native_batch_norm", "training", 128,
     lambda: torch.nn.functional.batch_norm(image, *state[:2], *state[2:], training=True)),
    ("native_batch_norm", "", 128,
     lambda: torch.nn.functional.batch_norm(image, *state[:2], *state[2:], training=False)),
    ("upsample_bilinear2d", "", 8, lambda: torch.nn.functional.interpolate(image, scale_factor=2, mode="bilinear")),
    (None, None, None, lambda: torch.ops.aten.unsafe_split(x, 2)),
    (None, None, None, lambda: x.t()),
]


def log_of(call):
    with torch.no_grad(), oracle_cost.OpLog() as log:
        out = call()
    return oracle_cost.launches(log, oracle_cost.tensors_in(out))[0]


def say(number, good, what, found):
    print(f"{'ok' if good else 'not ok'} {number} - {what}" + ("" if good else f": found {found}"))
    return not good


print(f"1..{len(CASES) + 5}")
failed = False
for i, (name, form, extent, call) in enumerate(CASES, 1):
    found = [(l["name"], l["form"], l["extent"] if extent else None) for l in log_of(call)]
    failed |= say(i, found == ([(name, form, extent)] if name else []),
                  f"{name or 'a view'}{' ' + form if form else ''}", found)

# x is new to the first operator; the second reads x and what the first wrote, the third x: nothing
# has moved since.
chain = [(l["warm"], l["since"]) for l in log_of(lambda: (x.exp() + x, x.neg()))]
failed |= say(len(CASES) + 1, chain == [(0, 0), (1, 0), (1, 0)], "what earlier operators touched is warm", chain)
far = [(l["warm"], l["since"]) for l in log_of(lambda: (x.exp(), vector.exp(), x.neg()))]
failed |= say(len(CASES) + 2, far == [(0, 0), (0, 0), (1, 40)], "bytes that moved since then", far)
# A row of a table of six: 20 bytes of it, 8 of the index, 20 written.
picked = log_of(lambda: torch.nn.functional.embedding(torch.tensor([3]), x))
failed |= say(len(CASES) + 3, [l["bytes"] for l in picked] == [48], "of a table no more is read than comes out", picked)
# Windows of three over rows of five hold nine elements of each row, and give three. The fused
# launch reads each element once.
with torch.no_grad(), oracle_cost.OpLog() as log:
    out = x.unfold(1, 3, 1).amax(-1)
windows = [l[0]["bytes"] for l in oracle_cost.launches(log, [out])]
failed |= say(len(CASES) + 4, windows == [4 * (6 * 9 + 18), 4 * (30 + 18)], "windows that overlap are read again",
              windows)
# A copy to other strides says how it reads and writes, in bytes; straight ones
# and other operators do not.
wide = {"shape": [5, 6], "to": [48, 8], "from": [4, 20], "sizes": [8, 4]}
doubles = lambda t: t.to(torch.float64, memory_format=torch.contiguous_format)
copies = [l.get("copy") for l in log_of(lambda: (x.clone(), doubles(x.t()), x.t().clone(),
                                                 vector.expand(6, 5).contiguous(), x.t().exp()))]
failed |= say(len(CASES) + 5, copies == [None, wide, None, {"shape": [6, 5], "to": [20, 4], "from": [0, 4],
              "sizes": [4, 4]}, None], "how copies read and write", copies)
sys.exit(failed)
