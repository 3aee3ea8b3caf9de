#!/usr/bin/env python
# timeout: 900 (seconds, on a busy machine)
"""Reference answers against PyTorch: composed tasks of every level, every style, fused and slow,
run through Triton's interpreter on the CPU and compared with the reference in float64. Sizes are
not the task's own but small odd ones, so an answer that knows a size fails; rows, columns and inner
sizes are not multiples of any block.

usage: test_answers.py [--full [COUNT]]   (full: many tasks and also the task's own sizes)

Tolerance, element by element: 10 times the largest error of the float32 reference itself (rounding
that the task brings along; another order of the same sums may be unluckier) plus 64 eps32 times the
largest |value| (at most 8 operators, a few ulp each: exp, tanh and division are within 4 ulp; a row
operator or product adds sqrt(128) eps)."""
import os

os.environ["TRITON_INTERPRET"] = "1"
import importlib.util
import json
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.language.extra import libdevice

EPS32 = 2.0 ** -23
# Of a task's answers one in so many is run, in turn: over a few tasks each style, and over all of
# them each operator, in the same time on any machine. --full runs each.
ANSWERS_APART = 6
TASKS_MIN = 12


def numpy_function(fn):
    """libdevice functions have no body in the interpreter: they become NumPy ones, computed in
    float32."""
    def call(x, _semantic=None):
        data = fn(x.handle.data.astype(np.float32)).astype(np.float32)
        return tl.tensor(interpreter.TensorHandle(data, x.handle.dtype), x.type)
    return call


def libdevice_patch():
    for name in ("tanh", "expm1", "log1p"):
        setattr(libdevice, name, numpy_function(getattr(np, name)))


def module_load(text, folder, name):
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as f:
        f.write(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def resize(source, variant):
    """Gives every module-level size constant another, small and odd value."""
    sizes = {"N": [1031, 97], "BATCH": [3, 1], "ROWS": [5, 3], "COLS": [67, 129], "M": [19, 7], "K": [37, 65],
             "DIN": [37, 70], "DOUT": [33, 19], "HIDDEN": [41, 17], "D": [21, 35]}
    is_product = re.search(r"^(K|D) = ", source, re.M)

    def swap(m):
        value = sizes[m.group(1)][variant]
        return "%s = %d" % (m.group(1), min(value, 45) if m.group(1) == "N" and is_product else value)
    return re.sub(r"^([A-Z]+) = \d+$", swap, source, flags=re.M)


def reference(source, folder, name):
    task = module_load(source, folder, name)
    torch.manual_seed(7)
    model = task.Model(*task.get_init_inputs())
    state = {k: torch.randn(v.shape) * (0.3 if v.dim() == 2 else 1.0) for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    inputs = [i.clone() for i in task.get_inputs()]
    with torch.no_grad():
        single = model(*inputs)
        double = model.double()(*[i.double() for i in inputs])
    bound = 10 * (single.double() - double).abs().max().item() + 64 * EPS32 * double.abs().max().item()
    return task, state, inputs, double, bound


def check(row, ref, folder, name):
    """Returns "" or what is wrong."""
    task, state, inputs, expected, bound = ref
    code = module_load(row["code"], folder, name)
    model = code.ModelNew(*task.get_init_inputs())
    model.load_state_dict(state)
    with torch.no_grad():
        found = model(*[i.clone() for i in inputs])
    if found.dtype != torch.float32 or found.shape != expected.shape:
        return "dtype %s, shape %s, expected %s" % (found.dtype, tuple(found.shape), tuple(expected.shape))
    worst = (found.double() - expected).abs().max().item()
    return "" if worst <= bound else "error %g, bound %g" % (worst, bound)


def rows_dump(seed, count, low, high):
    program = os.environ.get("BUILD", "build/release") + "/tests/task/test_task_answers"
    out = subprocess.run([program, "--dump", str(seed), str(count), str(low), str(high)], stdout=subprocess.PIPE,
                         check=True).stdout
    tasks = {}
    for line in out.splitlines():
        row = json.loads(line)
        tasks.setdefault(row["name"], []).append(row)
    return list(tasks.values())


def choose(tasks, count):
    """A sample in which every operator appears, then whatever comes."""
    seen, first, rest = set(), [], []
    for rows in tasks:
        ops = set(re.findall(r"[a-z0-9_]+", rows[0]["structure"].split(":", 1)[1])) - seen
        (first if ops else rest).append(rows)
        seen |= ops
    return (first + rest)[:max(count, len(first))]


def planted_errors_found(rows, folder):
    """The check itself must be able to fail: break an answer in several ways."""
    row = next(r for r in rows if r["style"] == 0 and not r["slow"])
    ref = reference(resize(row["source"], 0), folder, "planted")
    breaks = [("tl.store(out_ptr + offs, x", "tl.store(out_ptr + offs, x + 1e-4"), ("offs < n", "offs < n - 1")]
    found = 0
    for i, (old, new) in enumerate(breaks):
        assert old in row["code"], row["code"]
        broken = dict(row, code=row["code"].replace(old, new).replace("torch.empty_like", "torch.zeros_like"))
        found += bool(check(broken, ref, folder, "planted_%d" % i))
    return found == len(breaks)


def level_run(level, count, variants, apart, folder):
    tasks = choose(rows_dump(1000 + level, max(400, 3 * count), level, level), count)
    failures, runs, done = [], 0, 0
    for rows in tasks:
        done += 1
        name = "l%d_%d" % (level, done)
        refs = [reference(rows[0]["source"] if v is None else resize(rows[0]["source"], v), folder,
                          "%s_ref%d" % (name, i)) for i, v in enumerate(variants)]
        for i, row in enumerate(rows):
            if i % apart != done % apart:
                continue
            # in turn: each style sees every size variant over a few tasks
            k = (done // apart + i) % len(refs)
            for k, ref in enumerate(refs) if len(variants) > 2 else [(k, refs[k])]:
                runs += 1
                try:
                    problem = check(row, ref, folder, "%s_%d_%d" % (name, i, k))
                except Exception as e:  # an answer that does not run is a failure of that answer, whatever it raised
                    problem = "%s: %s" % (type(e).__name__, str(e)[:300])
                if problem:
                    failures.append("%s style %d%s: %s"
                                    % (row["structure"], row["style"], " slow" if row["slow"] else "", problem))
    for text in failures[:20]:
        print("# " + text)
    ops = {op for rows in tasks
           for op in re.findall(r"[a-z][a-z0-9_]+", rows[0]["structure"].split(":", 1)[1])} - {"in"}
    print("# level %d: %d tasks, %d answers run, %d operators among them" % (level, done, runs, len(ops)))
    return not failures and done >= TASKS_MIN, tasks


def main():
    full = "--full" in sys.argv
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400 if full else 0
    torch.set_num_threads(1)
    libdevice_patch()
    number = 0
    print("1..4")
    with tempfile.TemporaryDirectory() as folder:
        for level in (1, 2, 3):
            ok, tasks = level_run(level, count, [0, 1, None] if full else [0, 1], 1 if full else ANSWERS_APART, folder)
            number += 1
            print("%sok %d - answers of level %d compute what the task computes" % ("" if ok else "not ", number,
                level), flush=True)
            if level == 1:
                planted = planted_errors_found(next(t for t in tasks if t[0]["code"].count("= tl.load") == 1), folder)
        print("%sok 4 - planted errors are found" % ("" if planted else "not "))


main()
