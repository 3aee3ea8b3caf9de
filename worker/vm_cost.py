"""vm_cost: what kernels on the vm cost, per kernel and source line, and what that would take on a
GPU.

A launch's time is the vm's prediction for the card of --gpu (docs/cost-model.md). It ranks variants
of one kernel; it is no measurement. Operators of PyTorch between launches are predicted as the
verifier predicts a reference's (oracle_cost.py).
"""
import json
import linecache

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import oracle_cost

DOT_FP32, DOT_TF32, DOT_HALF = 0, 1, 2    # enum cost_dot

library = None     # libhone_vm.so (vm_driver.py)

listeners = []     # running stopwatches: launches are costed while there is one
kernels = {}       # (kernel, file) -> {"launches", "predicted_s", "cost", "lines": {line: cost}}
clock_s = 0.0      # predicted time of all that was costed


class Always:
    """Keeps launches costed for events; adds to no time."""

    is_trial, seconds = False, 0.0


def watch_everything():
    if not any(isinstance(listener, Always) for listener in listeners):
        listeners.insert(0, Always())


def add_counts(to, counts):
    for name, value in counts.items():
        if isinstance(value, (int, float)):
            to[name] = to.get(name, 0) + value


def add(kernel, report):
    """Called after each costed launch."""
    global clock_s
    if "cost" not in report:
        return
    seconds = report["predicted_s"]
    clock_s += seconds
    for listener in listeners:
        listener.seconds += seconds
    if listeners and listeners[-1].is_trial:
        return                     # what an autotuner tries is not what the script runs
    row = kernels.setdefault((kernel.name, kernel.src.fn.fn.__code__.co_filename),
                             {"launches": 0, "predicted_s": 0.0, "cost": {}, "lines": {}})
    row["launches"] += 1
    row["predicted_s"] += seconds
    add_counts(row["cost"], report["cost"])
    for line in report["lines"]:
        add_counts(row["lines"].setdefault(line["line"], {}), line["cost"])


def dot_unit(dtype):
    """What matrix products of this type run on, as PyTorch is set."""
    if dtype in (torch.float32, torch.float64):
        return DOT_TF32 if dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32 else DOT_FP32
    return DOT_HALF


class Stopwatch(TorchDispatchMode):
    """Adds up predicted seconds, of kernels and of PyTorch's operators."""

    is_trial = True

    def __init__(self):
        super().__init__()
        self.seconds = 0.0

    def __enter__(self):
        listeners.append(self)
        return super().__enter__()

    def __exit__(self, *exc):
        listeners.remove(self)
        return super().__exit__(*exc)

    @classmethod
    def _should_skip_dynamo(cls):
        return False               # to be skipped, dynamo would have to be imported: seconds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        row = oracle_cost.row_of(func, args, kwargs or {}, out)
        if row:
            launch = oracle_cost.eager_of(row)
            self.seconds += library.hone_vm_operator_s(launch["name"].encode(), launch["form"].encode(),
                                                       launch["bytes"], launch["flops"], launch["special"],
                                                       launch["dot_flops"], launch["extent"], dot_unit(row[2][0].dtype))
        return out


COLUMNS = ("load_bytes", "store_bytes", "load_sectors", "store_sectors", "flops", "special", "dot_flops", "atomics")
COLUMN_CHARS = 13


def print_table(out):
    """Kernels by falling time, each with its lines in the order of the source, which stands beside
    them. What no kernel has any of gets no column."""
    columns = [c for c in COLUMNS if any(row["cost"].get(c) for row in kernels.values())]

    def cells(counts):
        return "".join(f" {counts.get(c, 0):{COLUMN_CHARS}}" for c in columns)

    titles = "".join(f" {c:>{COLUMN_CHARS}}" for c in columns)
    print(f"{'kernel / line':32} {'launches':>8} {'us':>10}{titles}", file=out)
    for (name, path), row in sorted(kernels.items(), key=lambda item: -item[1]["predicted_s"]):
        print(f"{name[:32]:32} {row['launches']:8} {row['predicted_s'] * 1e6:10.1f}{cells(row['cost'])}", file=out)
        for line, counts in sorted(row["lines"].items()):
            text = linecache.getline(path, line).strip()
            print(f"{'  line ' + str(line):52}{cells(counts)}  {text}".rstrip(), file=out)


def as_json():
    return json.dumps({"kernels": [{"kernel": name, "file": path, **row,
                                    "lines": [{"line": n, **counts} for n, counts in sorted(row["lines"].items())]}
                                   for (name, path), row in kernels.items()]})
