#!/usr/bin/env python3
"""Single elements that a guided trial sets (worker/oracle_guided.py): exact bits where the input
may have them, larger or smaller than all others, and nothing elsewhere; rows next to nothing."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "worker"))
import torch

import oracle_guided
import oracle_inputs


def placed(x, y, at):
    """x after the edit; y is its draw under another seed."""
    return oracle_guided.one(x, oracle_inputs.Domain(x, y), 1, {"op": "place", "at": at}, None)


def dominated(x, y, at, by):
    return oracle_guided.one(x, oracle_inputs.Domain(x, y), 1, {"op": "dominate", "at": at, "by": by}, None)


def others(x, *at):
    """x without some elements, flat."""
    keep = torch.ones(x.numel(), dtype=torch.bool)
    keep[list(at)] = False
    return x.flatten()[keep]


def bits(value, dtype, whole):
    return torch.tensor(value, dtype=dtype).view(whole).item()


x, y = torch.randn(4, 5), torch.randn(4, 5)
half, chances = torch.randn(6).bfloat16(), torch.rand(3, 4).softmax(-1)
numbers, order = torch.tensor([3, 9, 4, 4, 7]), torch.tensor([2, 0, 1, 4, 3])
pi = bits(3.14159, torch.float32, torch.int32)
below = bits(-3.14159, torch.float32, torch.int32) & 0xffffffff   # as the runner writes it: no sign
wanted = x.clone()
wanted[1, 2], wanted[3, 4] = 3.14159, -3.14159
CASES = [
    ("floats, row by row", placed(x, y, [[1, 7, 4, pi], [1, 19, 4, below]]), wanted),
    ("of this input alone", placed(x, y, [[0, 7, 4, pi]]), x),
    ("of its size alone", placed(x, y, [[1, 7, 2, pi]]), x),
    ("inside it", placed(x, y, [[1, 20, 4, pi]]), x),
    ("no infinity", placed(x, y, [[1, 7, 4, bits(float("inf"), torch.float32, torch.int32)]]), x),
    ("halves", placed(half, half + 1, [[1, 0, 2, bits(1.5, torch.bfloat16, torch.int16)]])[0],
     torch.tensor(1.5).bfloat16()),
    ("no probabilities", placed(chances, chances.flip(0), [[1, 0, 4, pi]]), chances),
    ("whole numbers in their range", placed(numbers, numbers + 1, [[1, 0, 8, 8]]), torch.tensor([8, 9, 4, 4, 7])),
    ("and none beyond it", placed(numbers, numbers + 1, [[1, 0, 8, 10]]), numbers),
    ("no positions", placed(order, order.flip(0), [[1, 0, 8, 1]]), order),
]
far, low = dominated(x, y, [[1, 7, 4], [1, 3, 4]], 64), dominated(x, y, [[1, 7, 4], [1, 3, 4]], -64)
column = dominated(x.T, y.T, [[1, 7, 4]], 64)      # element 7 of the memory, whatever the strides
certain = dominated(chances, chances.flip(0), [[1, 5, 4]], 64)
flat = torch.arange(12)[:, None] * 0
dealt = oracle_inputs.shapes_dealt(flat == 0, flat)[:, 0].tolist()
rows, few, many = (oracle_guided.tiny(torch.ones(n, 3), {"by": 1e-12, "turn": turn}, torch.Generator().manual_seed(1))
                   for n, turn in ((8, 0), (1, 2), (8, 2)))
yes = torch.tensor(True)
CASES += [
    ("above all others, each by itself", (far[1, 2] > far[0, 3]) & (far[0, 3] > 40 * x.abs().max()), yes),
    ("and all others stay", others(far, 7, 3), others(x, 7, 3)),
    ("below all others, the last furthest", (low[0, 3] < low[1, 2]) & (low[1, 2] < -40 * x.abs().max()), yes),
    ("by its place in memory", column.T[1, 2] > 40 * x.abs().max(), yes),
    ("of this input alone, too", dominated(x, y, [[0, 7, 4]], 64), x),
    ("a probability", (certain.sum(-1) - 1).abs().max() < 1e-5, yes),
    ("that is most of its row", certain[1, 1] > 0.8, yes),
    ("whole numbers at the end of their range", dominated(numbers, numbers + 1, [[1, 0, 8]], -64),
     torch.tensor([3, 9, 4, 4, 7])),
    ("or at the other", dominated(numbers, numbers + 1, [[1, 0, 8]], 64), torch.tensor([9, 9, 4, 4, 7])),
    ("no positions are taken", dominated(order, order.flip(0), [[1, 0, 8]], 64), order),
    ("shapes that nothing else shows are dealt", torch.tensor([dealt.count(5), dealt.count(6)]), torch.tensor([1, 1])),
    ("one row takes one size after another", few, torch.full((1, 3), 1e-12)),
    ("many rows take all in the first turn", many, torch.ones(8, 3)),
    ("rows of four sizes", rows[:, 0].unique(), torch.tensor([1e-12 / 4096, 1e-12, 1e-6 / 64, 1e-6])),
]
print(f"1..{len(CASES)}")
failed = False
for i, (name, found, expected) in enumerate(CASES, 1):
    right = found.dtype == expected.dtype and torch.equal(found, expected)
    failed |= not right
    print(f"{'ok' if right else 'not ok'} {i} - {name}" + ("" if right else f"\n# {found} is not {expected}"))
sys.exit(failed)
