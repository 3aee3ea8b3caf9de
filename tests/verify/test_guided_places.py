#!/usr/bin/env python3
"""Elements that a guided trial places (worker/oracle_guided.py): exact bits where the input may
have them, and nothing elsewhere."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "worker"))
import torch

import oracle_guided
import oracle_inputs


def placed(x, y, at):
    """x after the edit; y is its draw under another seed."""
    return oracle_guided.one(x, oracle_inputs.Domain(x, y), 1, {"op": "place", "at": at}, None)


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
print(f"1..{len(CASES)}")
failed = False
for i, (name, found, expected) in enumerate(CASES, 1):
    right = found.dtype == expected.dtype and torch.equal(found, expected)
    failed |= not right
    print(f"{'ok' if right else 'not ok'} {i} - {name}" + ("" if right else f"\n# {found} is not {expected}"))
sys.exit(failed)
