#!/usr/bin/env python
"""The hand-written tasks: each imports, runs, and can tell a right kernel from a wrong one: results
finite, deterministic, neither constant nor equal to an input, different for other inputs, changed
by every input and by every parameter; real inputs have both signs. References stay small: the
number of values bounds the time that a CPU needs."""
import glob
import importlib.util
import os

import torch

VALUES_MAX = 200_000   # per tensor: milliseconds on one core
ROOT = "tasks/hand"


def task_load(path):
    spec = importlib.util.spec_from_file_location("task_" + os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(task, seed):
    torch.manual_seed(seed)
    model = task.Model(*task.get_init_inputs())
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            if p.is_floating_point():
                noise = torch.randn_like(p)
                p.copy_(noise.abs() + 0.2 if name.endswith("running_var") else noise * (0.3 if p.dim() > 1 else 1.0))
    return model


def run(model, inputs):
    with torch.no_grad():
        return model(*[i.clone() if isinstance(i, torch.Tensor) else i for i in inputs])


def differs(a, b):
    """At least one value in twenty moves by more than a hundredth of the result's spread."""
    a, b = a.double(), b.double()
    return (((a - b).abs() > 0.01 * a.std()).double().mean() > 0.05).item()


def problem_of(path):
    task = task_load(path)
    # Two draws of inputs and one model: results are compared in pairs.
    torch.manual_seed(1)
    inputs = task.get_inputs()
    torch.manual_seed(2)
    others = task.get_inputs()
    model = build(task, 3)
    out = run(model, inputs)
    if not isinstance(out, torch.Tensor):
        return "the result is not one tensor"
    if not torch.isfinite(out.double()).all():
        return "the result is not finite"
    if out.numel() < 8 or out.double().std() < 1e-3:
        return "the result is constant"
    if max(t.numel() for t in [out] + [i for i in inputs if isinstance(i, torch.Tensor)]) > VALUES_MAX:
        return "too large for a CPU"
    if not torch.equal(out, run(model, inputs)):
        return "two runs differ"
    if not differs(out, run(model, others)):
        return "other inputs give the same result"
    # An input that nobody reads, or a parameter, would let a wrong kernel pass.
    for i, t in enumerate(inputs):
        if isinstance(t, torch.Tensor) and t.shape == out.shape and t.dtype == out.dtype and not differs(out, t):
            return "the result is input %d" % i
        changed = list(inputs)
        changed[i] = others[i]
        if isinstance(t, torch.Tensor) and not torch.equal(t, others[i]) and not differs(out, run(model, changed)):
            return "input %d does not matter" % i
        if isinstance(t, torch.Tensor) and t.is_floating_point() and t.min() >= 0 and not ((t == 0) | (t == 1)).all():
            return "input %d has one sign only" % i
    for name, p in model.named_parameters():
        keep = p.detach().clone()
        with torch.no_grad():
            p.copy_(keep * 0.5 + 0.3)
        if not differs(out, run(model, inputs)):
            return "parameter %s does not matter" % name
        with torch.no_grad():
            p.copy_(keep)
    return ""


def main():
    torch.set_num_threads(1)
    paths = sorted(glob.glob(ROOT + "/level*/*.py"))
    wanted = [("level1", 25), ("level2", 20), ("level3", 15)]
    print("1..%d" % (len(paths) + len(wanted)))
    for i, path in enumerate(paths):
        try:
            problem = problem_of(path)
        except Exception as e:  # any way in which a task fails to run is that task's failure
            problem = "%s: %s" % (type(e).__name__, str(e)[:200])
        print("%sok %d - %s%s" % ("not " if problem else "", i + 1, path[len(ROOT) + 1:-3],
                                  ": " + problem if problem else ""))
    for i, (level, least) in enumerate(wanted):
        count = sum(1 for p in paths if "/" + level + "/" in p)
        print("%sok %d - %s has %d tasks, at least %d"
              % ("" if count >= least else "not ", len(paths) + i + 1, level, count, least))


main()
