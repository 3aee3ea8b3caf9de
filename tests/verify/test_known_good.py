#!/usr/bin/env python
# The corpus of honest kernels (tests/known_good/README.md). timeout: 900
"""Two lines a case of the share (tests/share.py). The case is what the README asks for: the folder
holds a task and a candidate, the reference runs and repeats itself, inputs are small, no two cases
share a source. And the command, `hone verify --json`, says genuine with exit status 0.

test_known_good.c grades cases within one process. So this script asks the command about GRADED
cases only, spread over the share; --all asks about every case, a name or more about those cases.

usage: tests/verify/test_known_good.py [--all] [--corpus FOLDER] [NAME ...]"""
import argparse
import glob
import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = ["worker", "tests"]
import share
import warm_python
import torch
from torch.utils import _pytree as pytree

HONE = os.path.join(os.environ.get("BUILD", "build/release"), "hone")
GRADED = 4
GRADED_AT_ONCE = 2
COMMAND_SECONDS = 240
INPUT_BYTES_MAX = 1 << 20
CASES_MIN = 200
SEED = "20240917"   # of the hidden inputs, so that a failure can be repeated

count = 0


def report(is_ok, name, why=""):
    global count
    count += 1
    if not is_ok:
        print("".join(f"# {line}\n" for line in str(why).splitlines()[:12]), end="")
    print(f"{'ok' if is_ok else 'not ok'} {count} - {name}", flush=True)


def task_load(path):
    spec = importlib.util.spec_from_file_location("task", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def oracle_outputs(text, seed):
    """A reference written for a GPU or with arguments by keyword: by the oracle's own reading of
    tasks (worker/oracle_reference.py)."""
    import oracle_reference as oracle
    with oracle.device_mode(text, "cpu"):
        reference = oracle.Reference(text, seed)
        call = reference.inputs(seed)
        oracle.seed_all(oracle.DRAW_SEED)
        size = sum(t.numel() * t.element_size() for t in call.tensors())
        return size, [t.clone() for t in oracle.forward(reference.model, call)]


def outputs(task, seed):
    torch.manual_seed(seed)
    model = task.Model(*task.get_init_inputs())
    torch.manual_seed(seed)
    inputs = task.get_inputs()
    size = sum(t.numel() * t.element_size() for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor))
    with torch.no_grad():
        out = pytree.tree_leaves(model(*inputs))
    return size, [t.clone() for t in out]


def fault_of_files(folder, sources):
    """What is wrong with a case's files, or an empty string."""
    files = sorted(f for f in os.listdir(folder) if f != "__pycache__")
    if files != ["candidate.py", "task.py"]:
        return f"expected candidate.py and task.py, found {', '.join(files)}"
    text = open(f"{folder}/candidate.py", encoding="utf-8").read()
    if "ModelNew" not in text or "jit" not in text:
        return "the candidate has no ModelNew or no jitted kernel"
    twin = sources.setdefault(text, folder)
    return "" if twin == folder else f"the candidate is the same text as {twin}'s"


def fault_of_case(folder, sources):
    """What is wrong with a case as the README sees it, or an empty string."""
    if why := fault_of_files(folder, sources):
        return why
    # The reference runs twice on the same inputs: finite, the same, and of a size that a CPU has
    # time for.
    try:
        text = open(f"{folder}/task.py", encoding="utf-8").read()
        run = (lambda: oracle_outputs(text, 1)) if "cuda" in text else lambda: outputs(task_load(f"{folder}/task.py"),
            1)
        size, first = run()
        _, again = run()
    except Exception as e:
        return f"the reference does not run: {type(e).__name__}: {e}"
    if not 0 < size <= INPUT_BYTES_MAX:
        return f"inputs are {size} bytes; expected at most {INPUT_BYTES_MAX}"
    if not first or not all(torch.equal(a, b) for a, b in zip(first, again)):
        return "two runs of the reference differ"
    if not all(torch.isfinite(t.double()).all() for t in first if t.is_floating_point()):
        return "the reference's output is not finite"
    return ""


def fault_of_verdict(folder):
    command = [HONE, "verify", "--task", f"{folder}/task.py", "--candidate", f"{folder}/candidate.py",
               "--device", "cpu", "--json", "--threads", "1", "--seed", SEED]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        verdict = json.loads(r.stdout)
    except subprocess.TimeoutExpired:
        return f"no verdict within {COMMAND_SECONDS} s"
    except (OSError, ValueError) as e:
        return f"no verdict: {e}"
    if verdict["verdict"] != "genuine":
        return (f"{verdict['verdict']}/{verdict['reason']} at {verdict['stage']}, line {verdict['line']}: "
                f"{verdict['detail']}")
    if r.returncode or verdict["stage"] != "done" or not verdict["correct"] or verdict["launches"] < 1:
        return f"exit status {r.returncode}: {r.stdout}"
    return ""


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--all", action="store_true")
    options.add_argument("--corpus", default="tests/known_good")
    options.add_argument("names", nargs="*")
    args = options.parse_args()
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    everything = [f.rstrip("/") for f in sorted(glob.glob(args.corpus + "/*/"))]
    folders = everything
    if not args.all and args.corpus == "tests/known_good":
        folders = [f for f in everything if share.is_in(os.path.basename(f))]
    if args.names:
        folders = graded = [f for f in everything if os.path.basename(f) in args.names]
    else:
        graded = folders if args.all else folders[::max(len(folders) // GRADED, 1)]
        report(len(everything) >= CASES_MIN or args.corpus != "tests/known_good", f"at least {CASES_MIN} cases",
               f"found {len(everything)}")
        report(folders is everything or share.is_right(len(folders), len(everything)),
               f"{len(folders)} of {len(everything)} cases are looked at")
        if len(folders) < len(everything):
            report(True, f"the other {len(everything) - len(folders)} of {len(everything)} cases # SKIP make "
                   "test-corpora looks at them")
    warm_python.start()
    # The files of all cases cost nothing; references run and commands judge for the share alone.
    sources = {}
    faults = [f"{f}: {why}" for f in everything if (why := fault_of_files(f, sources))]
    report(not faults, f"the files of all {len(everything)} cases, no two of which share a source", "\n".join(faults))
    for folder in folders:
        why = fault_of_case(folder, sources)
        report(not why, f"{os.path.basename(folder)}: well-formed", why)
    with ThreadPoolExecutor(GRADED_AT_ONCE) as pool:
        for folder, why in zip(graded, pool.map(fault_of_verdict, graded)):
            report(not why, f"{os.path.basename(folder)}: genuine", why)
    print(f"1..{count}")


main()
