"""Predicted against measured speedups over a corpus of honest kernels (docs/cost-model.md, "Over the known-good corpus").

    bench/cost/corpus_h200.py --predict    without a GPU: the verifier grades each pair; writes $OUT/predicted.json
    bench/cost/corpus_h200.py --measure    on a machine with a GPU, at most ten minutes: writes $OUT/measured.json
    bench/cost/corpus_h200.py --compare    reads both and prints Kendall's tau-b

A pair is a folder of tests/known_good: task.py, a reference in KernelBench's format, and candidate.py. --bytes N makes sizes where work outweighs launches: the size
constants that only get_inputs() uses grow, the first of them first, until the inputs have about N bytes; pairs whose sizes are literals are left out then. OUT is
build/corpus_h200, with --bytes build/corpus_h200_N, unless the environment sets it.

Measured: reference and candidate get the same inputs and weights and must agree; then CUDA graphs of N times (L2 flush, forward) against N flushes give the time
with a cold L2, graphs of N times forward the time with a warm one. Everything is measured twice, in two passes over the corpus: the tau between the passes is what a
perfect prediction could reach.
"""
import argparse
import ast
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
CORPUS = os.path.join(ROOT, "tests", "known_good")
START = time.monotonic()
LIMIT_S = 540
LOADERS = 8
GROWTH_MAX = 1 << 16
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build", "release"))


def say(text):
    print(f"[{time.monotonic() - START:6.1f} s] {text}", file=sys.stderr, flush=True)


def write_json(name, value):
    os.makedirs(os.environ["OUT"], exist_ok=True)
    path = os.path.join(os.environ["OUT"], name)
    with open(path + ".part", "w") as f:
        json.dump(value, f, indent=1)
    os.replace(path + ".part", path)


def read_json(name):
    with open(os.path.join(os.environ["OUT"], name)) as f:
        return json.load(f)


def read(path):
    with open(path) as f:
        return f.read()


# ---- pairs and their sizes ----

def names_in(tree, function):
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
    return {n.id for f in found for n in ast.walk(f) if isinstance(n, ast.Name)}


def size_constants(tree):
    """Assignments of module-level integers that only get_inputs() uses, in order."""
    elsewhere = {n.id for part in tree.body if not (isinstance(part, ast.FunctionDef) and part.name == "get_inputs")
                 for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    wanted = names_in(tree, "get_inputs") - elsewhere
    return [n for n in tree.body if isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name)
            and n.targets[0].id in wanted and isinstance(n.value, ast.Constant) and type(n.value.value) is int and n.value.value > 1]


def input_bytes(text):
    """Bytes of the tensors that get_inputs() makes."""
    import torch
    names = {}
    exec(compile(text, "task.py", "exec"), names)
    leaves = torch.utils._pytree.tree_leaves(names["get_inputs"]())
    return sum(t.numel() * t.element_size() for t in leaves if isinstance(t, torch.Tensor))


def grown(text, target):
    """The task with inputs of about `target` bytes, or None where its sizes are literals. A size grows by powers of two, so that what divided it still does."""
    tree = ast.parse(text)
    sizes = size_constants(tree)
    before = input_bytes(text)
    if not sizes or not before:
        return None
    factor = 1 << max(int(math.log2(target / before)), 0)
    sizes[0].value = ast.Constant(sizes[0].value.value * min(factor, GROWTH_MAX))
    return ast.unparse(ast.fix_missing_locations(tree))


def pairs(options):
    """name -> (task's text, candidate's text)."""
    found = {}
    for name in sorted(os.listdir(CORPUS)):
        folder = os.path.join(CORPUS, name)
        if not os.path.exists(os.path.join(folder, "candidate.py")) or (options.only and name not in options.only.split(",")):
            continue
        task = read(os.path.join(folder, "task.py"))
        if options.bytes:
            task = grown(task, options.bytes)
        if task:
            found[name] = task, read(os.path.join(folder, "candidate.py"))
    return found


# ---- predicting (no GPU) ----

KEPT = ("verdict", "reason", "cost_s", "eager_cost_s", "fused_cost_s", "speedup_eager", "speedup_fused", "launches", "not_predicted")


def predict(options):
    """One verifier grades all pairs. Values are judged at sizes that a CPU can bear, times are predicted at the task's own."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        listed = []
        for name, texts in pairs(options).items():
            line = {"id": name}
            for kind, text in zip(("task", "candidate"), texts):
                line[kind] = os.path.join(folder, f"{name}_{kind}.py")
                with open(line[kind], "w") as f:
                    f.write(text)
            listed.append(json.dumps(line))
        done = subprocess.Popen([f"{BUILD}/bench/verify/grade_list", str(options.jobs), "1", "stock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        done.stdin.write("\n".join(listed) + "\n")
        done.stdin.close()
        for line in done.stdout:
            graded = json.loads(line)
            rows[graded["id"]] = row = {k: graded["verdict"].get(k) for k in KEPT}
            say(f"{graded['id']}: {row}")
            write_json("predicted.json", dict(sorted(rows.items())))
    bad = [n for n, r in rows.items() if r["verdict"] != "genuine" or not r["speedup_eager"]]
    print(f"wrote {os.environ['OUT']}/predicted.json: {len(rows)} pairs, {len(bad)} of them without a prediction: {' '.join(bad)}")


# ---- measuring (GPU) ----

def module_of(text, folder, name):
    """Triton reads a kernel's source from its file."""
    path = os.path.join(folder, f"{name}.py")
    with open(path, "w") as f:
        f.write(text)
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same(torch, a, b):
    a, b = ([t for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)] for x in (a, b))
    return len(a) == len(b) and all(x.shape == y.shape and torch.allclose(x.double(), y.double(), rtol=2e-2, atol=2e-2, equal_nan=True) for x, y in zip(a, b))


def load(torch, name, task, candidate, folder):
    """(reference, candidate) as calls without arguments that do the same work. Raises where they disagree."""
    task, candidate = module_of(task, folder, f"task_{name}"), module_of(candidate, folder, f"candidate_{name}")
    torch.manual_seed(1)
    inputs, init = task.get_inputs(), task.get_init_inputs()
    given = (init[0], init[1]) if len(init) == 2 and isinstance(init[0], list) and isinstance(init[1], dict) else (init, {})
    models = []
    for kind in (task.Model, candidate.ModelNew):
        torch.manual_seed(2)
        models.append(kind(*given[0], **given[1]).eval())
    models[1].load_state_dict(models[0].state_dict(), strict=False)
    clone = lambda: torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, inputs)
    own = [clone(), clone()]
    with torch.no_grad():
        outs = [m(*i) for m, i in zip(models, own)]
    torch.cuda.synchronize()
    if not same(torch, *outs):
        raise ValueError("the candidate and the reference disagree on this GPU")
    return [lambda m=m, i=i: m(*i) for m, i in zip(models, own)]


def settle(torch):
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def load_share(options, share):
    """A child of --measure: fills Triton's cache with its share of the kernels."""
    import torch
    settle(torch)
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, pair) in enumerate(pairs(options).items()):
            if i % LOADERS == share:
                try:
                    load(torch, name, *pair, folder)
                except Exception as error:
                    say(f"{name}: {type(error).__name__}: {str(error)[:200]}")


def load_all(options):
    argv = [sys.executable, os.path.abspath(__file__), "--bytes", str(options.bytes), "--only", options.only]
    children = [subprocess.Popen([*argv, "--load-share", str(i)]) for i in range(LOADERS)]
    deadline = time.monotonic() + 200
    for one in children:
        try:
            one.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    say("compiled")


def times_of(torch, clock, call):
    """Cold and warm microseconds of one forward, from graphs."""
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        count = 20 if a.elapsed_time(b) < 2 else 5
        cold, spread = clock.cold_us(call, count, repeats=5)
        return {"cold_us": cold, "cold_spread_us": spread, "warm_us": clock.warm_us(call, count, repeats=3)}


def measure_rest(options):
    """A child of --measure: appends a line of JSON a pair to $OUT/pass.jsonl. A capture that fails leaves torch's state unfit for the next one, so the child ends
    behind it and the parent begins another with what is left."""
    import torch
    from cost_h200 import Clock
    settle(torch)
    clock = Clock(torch)
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(os.environ["OUT"], "pass.jsonl"), "a", buffering=1) as log:
        for name, pair in pairs(options).items():
            if time.monotonic() - START > options.seconds:
                return
            row, is_fit = {}, True
            try:
                reference, candidate = load(torch, name, *pair, folder)
                is_fit = False
                row = {"eager": times_of(torch, clock, reference), "candidate": times_of(torch, clock, candidate)}
                is_fit = True
            except Exception as error:
                row = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
                is_fit = is_fit and not isinstance(error, torch.AcceleratorError)
            log.write(json.dumps({"name": name, **row}) + "\n")
            if not is_fit:
                return
            torch.cuda.empty_cache()


def measure_pass(options, names):
    """name -> times or error; what the limit cuts off has no entry."""
    path, rows = os.path.join(os.environ["OUT"], "pass.jsonl"), {}
    open(path, "w").close()
    while time.monotonic() - START < options.seconds:
        left = [n for n in names if n not in rows]
        if not left:
            break
        argv = [sys.executable, os.path.abspath(__file__), "--measure-rest", "--bytes", str(options.bytes), "--only", ",".join(left)]
        subprocess.run([*argv, "--seconds", str(options.seconds - (time.monotonic() - START))])
        before = len(rows)
        with open(path) as f:
            for line in f:
                row = json.loads(line)
                rows[row.pop("name")] = row
        if len(rows) == before and time.monotonic() - START < options.seconds:
            rows[left[0]] = {"error": "the process that should time it ended without a word"}
    os.remove(path)
    return rows


def measure(options):
    os.makedirs(os.environ["OUT"], exist_ok=True)
    load_all(options)
    import torch
    from cost_h200 import machine
    names = list(pairs(options))
    result = {"machine": machine(torch), "bytes": options.bytes, "passes": []}
    for number in (1, 2):
        result["passes"].append(rows := measure_pass(options, names))
        write_json("measured.json", result)
        say(f"pass {number}: {sum('eager' in r for r in rows.values())} of {len(names)} pairs have times")
    result["machine_after"] = machine(torch)
    write_json("measured.json", result)
    for name, row in result["passes"][0].items():
        if "error" in row:
            print(f"  {name}: {row['error']}")


# ---- comparing ----

def tau_b(pairs):
    """Kendall's tau-b: concordant less discordant pairs, over the geometric mean of the pairs that are no tie on each side."""
    agree = ties_a = ties_b = total = 0
    for (a, b), (c, d) in itertools.combinations(pairs, 2):
        x, y = (a > c) - (a < c), (b > d) - (b < d)
        agree, ties_a, ties_b, total = agree + x * y, ties_a + (x == 0), ties_b + (y == 0), total + 1
    room = (total - ties_a) * (total - ties_b)
    return agree / math.sqrt(room) if room else float("nan")


def row(what, found):
    """found: (predicted, measured)."""
    if len(found) < 2:
        return print(f"{what:44} too few pairs")
    ratios = sorted(p / m for p, m in found if m > 0)
    print(f"{what:44} {len(found):6} {tau_b(found):7.2f} {statistics.median(ratios):8.2f} {ratios[len(ratios) // 10]:8.2f} {ratios[-1 - len(ratios) // 10]:8.2f}")


def compare(options):
    predicted, measured = read_json("predicted.json"), read_json("measured.json")
    first, second = measured["passes"]
    both = [n for n in predicted if predicted[n]["verdict"] == "genuine" and predicted[n]["speedup_eager"] and "eager" in first.get(n, {}) and "eager" in second.get(n, {})
            and min(t[kind]["cold_us"] for t in (first[n], second[n]) for kind in ("eager", "candidate")) > 0]
    print(f"{len(both)} of {len(predicted)} pairs have a prediction and a time; {measured['machine']['name']}")
    print(f"{'':44} {'pairs':>6} {'tau-b':>7} {'median':>8} {'10 %':>8} {'90 %':>8}   ratios: predicted / measured")
    speedup = lambda rows, n, how: rows[n]["eager"][how] / rows[n]["candidate"][how]
    row("speedup against eager, cold L2", [(predicted[n]["speedup_eager"], speedup(first, n, "cold_us")) for n in both])
    row("speedup against eager, warm L2", [(predicted[n]["speedup_eager"], speedup(first, n, "warm_us")) for n in both])
    row("the same, measured twice (second / first), cold", [(speedup(second, n, "cold_us"), speedup(first, n, "cold_us")) for n in both])
    row("the same, measured twice (second / first), warm", [(speedup(second, n, "warm_us"), speedup(first, n, "warm_us")) for n in both])
    row("the candidate's time, cold L2", [(predicted[n]["cost_s"] * 1e6, first[n]["candidate"]["cold_us"]) for n in both])
    row("eager's time, cold L2", [(predicted[n]["eager_cost_s"] * 1e6, first[n]["eager"]["cold_us"]) for n in both])
    worst = sorted(both, key=lambda n: abs(math.log(predicted[n]["speedup_eager"] / speedup(first, n, "cold_us"))), reverse=True)[:10]
    print("furthest off (predicted, measured speedup; candidate predicted, measured us; eager predicted, measured us):")
    for n in worst:
        p, m = predicted[n], first[n]
        print(f"  {n:36} {p['speedup_eager']:6.2f} {speedup(first, n, 'cold_us'):6.2f}   {p['cost_s'] * 1e6:8.1f} {m['candidate']['cold_us']:8.1f}"
              f"   {p['eager_cost_s'] * 1e6:8.1f} {m['eager']['cold_us']:8.1f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    for flag in ("predict", "measure", "compare"):
        what.add_argument(f"--{flag}", action="store_true")
    what.add_argument("--load-share", type=int)
    what.add_argument("--measure-rest", action="store_true")
    p.add_argument("--bytes", type=int, default=0)
    p.add_argument("--only", default="", help="names of pairs, with commas")
    p.add_argument("--seconds", type=float, default=LIMIT_S, help="of --measure")
    p.add_argument("--jobs", type=int, default=2, help="verdicts at a time of --predict")
    o = p.parse_args()
    os.environ.setdefault("OUT", os.path.join(ROOT, "build", f"corpus_h200_{o.bytes}" if o.bytes else "corpus_h200"))
    if o.predict:
        return predict(o)
    if o.measure:
        return measure(o)
    if o.measure_rest:
        return measure_rest(o)
    if o.compare:
        return compare(o)
    return load_share(o, o.load_share)


if __name__ == "__main__":
    main()
