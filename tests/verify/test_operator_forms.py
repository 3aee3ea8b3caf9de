#!/usr/bin/env python3
"""The form of an operator (worker/oracle_cost.py), by which its time is found: what it works along,
from its arguments and its tensors' strides."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "worker"))
import torch

import oracle_cost

x, vector = torch.rand(6, 5), torch.rand(1, 5)
image, weight, dense = torch.rand(2, 4, 8, 8), torch.rand(4, 1, 3, 3), torch.rand(3, 4, 3, 3)
state = [torch.rand(4) for _ in range(4)]
CASES = [
    ("add", "", lambda: x + x),
    ("sum", "last", lambda: x.sum(1)),
    ("sum", "last", lambda: x.sum(-1)),
    ("sum", "other", lambda: x.sum(0)),
    ("sum", "last", lambda: x.t().sum(0)),
    ("sum", "all", lambda: x.sum()),
    ("sum", "all", lambda: x.sum((0, 1))),
    ("sum", "all", lambda: vector.sum(1)),
    ("_softmax", "other", lambda: torch.softmax(x, 0)),
    ("cumsum", "last", lambda: x.cumsum(1)),
    ("clone", "", lambda: x.clone()),
    ("clone", "other", lambda: x.t().contiguous()),
    ("_to_copy", "", lambda: x.half()),
    ("convolution", "", lambda: torch.nn.functional.conv2d(image, dense)),
    ("convolution", "groups", lambda: torch.nn.functional.conv2d(image, weight, groups=4)),
    ("native_batch_norm", "training", lambda: torch.nn.functional.batch_norm(image, *state[:2], *state[2:], training=True)),
    ("native_batch_norm", "", lambda: torch.nn.functional.batch_norm(image, *state[:2], *state[2:], training=False)),
    (None, None, lambda: torch.ops.aten.unsafe_split(x, 2)),
    (None, None, lambda: x.t()),
]

print(f"1..{len(CASES)}")
failed = False
for i, (name, form, call) in enumerate(CASES, 1):
    with torch.no_grad(), oracle_cost.OpLog() as log:
        out = call()
    found = [(l["name"], l["form"]) for l in oracle_cost.launches(log, oracle_cost.tensors_in(out))[0]]
    good = found == ([(name, form)] if name else [])
    failed |= not good
    print(f"{'ok' if good else 'not ok'} {i} - {name or 'a view'}{' ' + form if form else ''}" + ("" if good else f": found {found}"))
sys.exit(failed)
