#!/usr/bin/env python
# timeout: 900 (seconds, on a busy machine)
"""Families of the ladder against PyTorch: of every family tasks of a few seeds, every answer that
the sizes choose among run through Triton's interpreter at the sizes where the task says it is
judged, and compared with the reference in float64. usage: test_families.py [--each COUNT] [--only
FAMILY]

Tolerance, element by element and per output: 10 times the largest error of the float32 reference
itself plus 64 eps32 times the largest |value| (test_answers.py has the derivation). Integers must
be equal."""
import os

os.environ["TRITON_INTERPRET"] = "1"
import collections
import glob
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
RUNGS = "T1,T2,T3,T4"


def numpy_function(fn):
    """libdevice functions have no body in the interpreter: they become NumPy ones, computed in
    float32."""
    def call(x, _semantic=None):
        data = fn(x.handle.data.astype(np.float32)).astype(np.float32)
        return tl.tensor(interpreter.TensorHandle(data, x.handle.dtype), x.type)
    return call


def module_load(text, folder, name):
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as f:
        f.write(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(source):
    """The source at the sizes that its last line states."""
    line = source.rstrip().split("\n")[-1]
    assert line.startswith("# Judged at "), line
    for part in line[len("# Judged at "):].split(", "):
        name, value = part.split("=")
        source, count = re.subn(r"^%s = \d+$" % name, "%s = %s" % (name, value), source, flags=re.M)
        assert count == 1, part
    return source


def elements(source):
    """The product of the task's own sizes."""
    return np.prod([float(v) for v in re.findall(r"^[A-Z]+ = (\d+)$", source, re.M)])


def tensors(out):
    return list(out) if isinstance(out, tuple) else [out]


def run(model, inputs, double=False):
    with torch.no_grad():
        return tensors((model.double() if double
                        else model)(*[i.double() if double and i.is_floating_point() else i.clone() for i in inputs]))


def reference(source, folder, name):
    task = module_load(judged(source), folder, name)
    torch.manual_seed(7)
    model = task.Model(*task.get_init_inputs())
    state = {k: torch.rand(v.shape) + 0.5 if k.endswith("running_var") else torch.randn(v.shape)
             if v.is_floating_point() else v for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    inputs = task.get_inputs()
    single = run(model, inputs)
    return task, state, inputs, single, run(model, inputs, double=True)


def check(row, ref, folder, name):
    """Returns "" or what is wrong."""
    task, state, inputs, single, double = ref
    model = module_load(row["code"], folder, name).ModelNew(*task.get_init_inputs())
    model.load_state_dict(state)
    found = run(model, inputs)
    if [(t.dtype, t.shape) for t in found] != [(t.dtype, t.shape) for t in single]:
        return ("dtypes or shapes differ: %s, expected %s"
                % ([(t.dtype, tuple(t.shape)) for t in found], [(t.dtype, tuple(t.shape)) for t in single]))
    for i, (y, f, r) in enumerate(zip(found, single, double)):
        if not y.is_floating_point():
            if not torch.equal(y, f):
                return "output %d differs" % i
            continue
        bound = 10 * (f.double() - r).abs().max().item() + 64 * EPS32 * r.abs().max().item()
        worst = (y.double() - r).abs().max().item()
        if not worst <= bound:
            return "output %d: error %g, bound %g" % (i, worst, bound)
    return ""


def family_names():
    texts = [open(p).read() for p in sorted(glob.glob("src/task/templates/*.txt"))]
    return re.findall(r"^%family (\w+)", "".join(texts), re.M)


def rows_by_family(each):
    wanted = family_names()
    program = os.environ.get("BUILD", "build/release") + "/tests/task/test_task_answers"
    families = collections.defaultdict(dict)
    for seed in range(1, 20):
        out = subprocess.run([program, "--rungs", str(seed), str(160 * each), RUNGS], stdout=subprocess.PIPE,
                             check=True).stdout
        for line in out.splitlines():
            row = json.loads(line)
            family = row["structure"].split(":", 1)[0]
            tasks = families[family]
            if family in wanted and (len(tasks) < each or row["name"] in tasks):
                tasks.setdefault(row["name"], []).append(row)
        if all(len(families[f]) >= each for f in wanted):
            break
    return {f: list(families[f].values()) for f in sorted(wanted)}


def family_problems(family, tasks, folder):
    problems, runs = [] if tasks else ["no task was drawn"], 0
    for k, rows in enumerate(tasks):
        name = "%s_%d" % (family, k)
        if elements(rows[0]["source"]) < 2 ** 22 * 0.9:
            problems.append("%s: %d elements" % (rows[0]["structure"], elements(rows[0]["source"])))
        try:
            ref = reference(rows[0]["source"], folder, name + "_ref")
        except Exception as e:
            problems.append("%s: the reference: %s: %s" % (rows[0]["structure"], type(e).__name__, str(e)[:200]))
            continue
        for i, row in enumerate(rows):
            runs += 1
            try:
                problem = check(row, ref, folder, "%s_%d" % (name, i))
            except Exception as e:      # an answer that does not run is a failure of that answer, whatever it raised
                problem = "%s: %s" % (type(e).__name__, (str(e).strip().split("\n") or [""])[-1][:300])
            if problem:
                problems.append("%s choice %d style %d: %s" % (row["structure"], row["choice"], row["style"], problem))
    return problems, runs


def planted_error_is_found(tasks, folder):
    """The check itself must be able to fail: a sum that misses its last column."""
    row = tasks[0][0]
    broken = dict(row, code=row["code"].replace("< cols", "< cols - 1"))
    assert broken["code"] != row["code"]
    return bool(check(broken, reference(row["source"], folder, "planted_ref"), folder, "planted"))


def main():
    args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    each = int(args.get("--each", 1))
    torch.set_num_threads(1)
    for name in ("tanh", "expm1", "log1p"):
        setattr(libdevice, name, numpy_function(getattr(np, name)))
    families = rows_by_family(each)
    if "--only" in args:
        families = {f: t for f, t in families.items() if f in args["--only"].split(",")}
    print("1..%d" % (len(families) + 1))
    with tempfile.TemporaryDirectory() as folder:
        for number, (family, tasks) in enumerate(families.items(), 1):
            problems, runs = family_problems(family, tasks, folder)
            for text in problems[:5]:
                print("# " + text)
            print("%sok %d - %s %s: %d tasks, %d answers compute what the task computes" % ("not " if problems else "",
                number, tasks[0][0]["rung"] if tasks else "", family, len(tasks), runs), flush=True)
        planted = "row_norm" not in families or planted_error_is_found(families["row_norm"], folder)
    print("%sok %d - a planted error is found" % ("" if planted else "not ", len(families) + 1))


main()
