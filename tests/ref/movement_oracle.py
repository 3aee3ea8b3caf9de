"""Fixtures for tests/runner/test_movement.c: what torch does when it copies and fills strided
views.
usage: movement_oracle.py OUT.json

A case is {dst, src, dst_before, src_data, expected} (copy) or {dst, value, dst_before, expected}
(fill); memory in hex. Values that a float cannot keep in an integer type are left out: there
torch's CPU and GPU differ."""
import itertools
import json
import os
import random
import sys

import torch

DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32",
          "int64", "uint8", "bool"]
ELEMENTS = 96


def dtype(name):
    return getattr(torch, name)


def memory(name, rng):
    """A flat tensor of valid values."""
    if name == "bool":
        return torch.tensor([rng.random() < 0.5 for _ in range(ELEMENTS)])
    if name.startswith("float") or name == "bfloat16":
        special = [0.0, -0.0, 0.5, -1.5, 2.5, 100.25, -100.75, 1e-3, 3.0625]
        return torch.tensor([rng.choice(special) if rng.random() < 0.3 else rng.uniform(-120, 120)
                             for _ in range(ELEMENTS)], dtype=torch.float64).to(dtype(name))
    info = torch.iinfo(dtype(name))
    return torch.tensor([rng.choice([info.min, info.max, 0, 1]) if rng.random() < 0.2
                         else rng.randint(max(info.min, -(1 << 62)), min(info.max, 1 << 62)) for _ in range(ELEMENTS)],
                        dtype=dtype(name))


def view(shape, rng, gaps):
    """(offset, strides): some order of dimensions, with gaps."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    stride, at = [0] * len(shape), 1
    for d in order:
        stride[d] = at
        at *= shape[d] + (rng.randint(0, 1) if gaps else 0)
    return rng.randint(0, max(0, ELEMENTS - at)), stride


def raw(t):
    return t.contiguous().view(torch.uint8).numpy().tobytes().hex()


def describe(name, offset, shape, stride):
    return {"dtype": name, "offset": offset * dtype(name).itemsize, "shape": list(shape), "stride": list(stride)}


def cases(rng):
    shapes = [(), (7,), (3, 5), (1, 8), (2, 3, 4), (4, 1, 5), (0, 3)]
    for a, b in itertools.product(DTYPES, DTYPES):
        # Copies: both sides strided, some sources with a stride of 0.
        for shape in rng.sample(shapes, 3):
            src, dst = memory(b, rng), memory(a, rng)
            so, ss = view(shape, rng, rng.random() < 0.5)
            do, ds = view(shape, rng, rng.random() < 0.5)
            if shape and rng.random() < 0.2:
                ss[0] = 0
            case = {"dst": describe(a, do, shape, ds), "src": describe(b, so, shape, ss), "dst_before": raw(dst),
                    "src_data": raw(src)}
            s = torch.as_strided(src, shape, ss, so)
            # What a float becomes outside of an integer's range is nobody's promise.
            if a.startswith(("int", "uint")) and (b.startswith("float") or b == "bfloat16"):
                info = torch.iinfo(dtype(a))
                src = src.double().clamp(max(info.min, -100), min(info.max, 100)).to(dtype(b))
                case["src_data"] = raw(src)
                s = torch.as_strided(src, shape, ss, so)
            torch.as_strided(dst, shape, ds, do).copy_(s)
            case["expected"] = raw(dst)
            yield case
    # Fills, with values that the type has.
    for a in DTYPES:
        for value in (0, 1, -1, 7, 0.1):
            if (a == "bool" and value not in (0, 1) or a.startswith("uint") and value < 0
                    or not dtype(a).is_floating_point and value != int(value)):
                continue
            shape = rng.choice(shapes)
            dst = memory(a, rng)
            o, s = view(shape, rng, True)
            case = {"dst": describe(a, o, shape, s), "value": value, "dst_before": raw(dst)}
            torch.as_strided(dst, shape, s, o).fill_(value)
            case["expected"] = raw(dst)
            yield case


def main():
    rng = random.Random(7)
    out = sys.argv[1]
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out + ".part", "w") as f:
        json.dump(list(cases(rng)), f)
    os.replace(out + ".part", out)


main()
