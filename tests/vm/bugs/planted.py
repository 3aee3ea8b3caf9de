"""Kernels with one planted bug each, and honest ones beside them, for tests/vm/test_vm_bugs.c.

    python tests/vm/bugs/planted.py OUT_DIR      compiles all without a GPU; writes
                                                 OUT_DIR/<kernel>.json, .ttir, .bin and cases.txt

A bug is marked where the vm must find it: `# BUG <kind>` behind the line, `# NOTE <kind>` for a
note. A kernel without a BUG mark must run without any error. The cases are in lanes.py, memory.py,
races.py, reductions.py and values.py; each kernel is its own case, named as the function.
"""
import inspect
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "ref")]
import torch
import vm_corpus

CASES = []
f32 = lambda *shape: torch.arange(max(int(torch.tensor(shape).prod()), 1), dtype=torch.float32).reshape(shape) * 0.5 + 1
i32 = lambda *values: torch.tensor(values, dtype=torch.int32)
zeros = lambda *shape, dtype=torch.float32: torch.zeros(shape, dtype=dtype)


def case(kernel, grid, args, empty=(), read_only=(), name=None):
    """args by name, in the kernel's order. empty: arguments that nobody wrote, as torch.empty makes
    them. read_only: those that must not be stored to."""
    CASES.append((name or kernel.fn.__name__, kernel, grid if isinstance(grid, tuple) else (grid,), args, empty,
                  read_only))


def marks(kernel):
    lines, first = inspect.getsourcelines(kernel.fn)
    found = {"BUG": [], "NOTE": []}
    for i, line in enumerate(lines):
        for what, kind in re.findall(r"# (BUG|NOTE) ([a-z-]+)", line):
            found[what].append({"kind": kind, "line": first + i})
    return found


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    sys.modules["planted"] = sys.modules["__main__"]
    import lanes, memory, races, reductions, values   # each enters its cases
    assert len({c[0] for c in CASES}) == len(CASES), "two cases of one name"
    for name, kernel, grid, args, empty, read_only in CASES:
        expect = {n: None for n in args if n not in read_only}
        options = {"debug": True, "sanitize_overflow": False}   # debug: keeps device_assert
        vm_corpus.write_case(vm_corpus.Case(name, kernel, grid, args, expect, options=options), folder)
        path = os.path.join(folder, name + ".json")
        with open(path) as f:
            written = json.load(f)
        found = marks(kernel)
        assert len(found["BUG"]) <= 1, name
        written.update(bug=found["BUG"][0] if found["BUG"] else None, notes=found["NOTE"],
                       empty=[b["name"] in empty for b in written["buffers"]])
        with open(path, "w") as f:
            json.dump(written, f)
    with open(os.path.join(folder, "cases.txt"), "w") as f:
        f.write("".join(c[0] + "\n" for c in CASES))


if __name__ == "__main__":
    main()
