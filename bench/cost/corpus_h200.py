"""Predicted against measured speedups over a corpus of honest kernels (docs/cost-model.md, "Over
the known-good corpus").

    bench/cost/corpus_h200.py --predict   without a GPU: the verifier grades each pair; writes
                                          $OUT/predicted.json
    bench/cost/corpus_h200.py --measure   on a machine with a GPU, at most ten minutes: writes
                                          $OUT/measured.json
    bench/cost/corpus_h200.py --compare   reads both and prints Kendall's tau-b

A pair is a folder of tests/known_good: task.py, a reference in KernelBench's format, and
candidate.py. --bytes N makes sizes where work outweighs launches: the size constants that only
get_inputs() uses grow, the first of them first, until the inputs have about N bytes; pairs whose
sizes are literals are left out then. OUT is build/corpus_h200, with --bytes build/corpus_h200_N,
unless the environment sets it.

Measured: reference and candidate get the same inputs and weights and must agree, kernels under an
autotuner with the first configuration that compiles, which is the one that the verifier judges;
then CUDA graphs of N times (L2 flush, forward) against N flushes give the time with a cold L2,
graphs of N times forward the time with a warm one. Everything is measured twice, in two passes over
the corpus: the tau between the passes is what a perfect prediction could reach.
"""
import argparse
import ast
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
CORPUS = os.path.join(ROOT, "tests", "known_good")
START = time.monotonic()
LIMIT_S = 540
RESAMPLED = 1000
UNSAID = "ended without a word"
WORK_MS = 20            # of the reference over all trials: values are judged at sizes that take no longer
SLOW_MS = 200           # a forward that takes longer is not timed
GROWTH_MAX = 1 << 16    # a size grows to this many times itself at most
MOVED_MAX = 16          # bytes of all operators over the bytes wanted
FLOPS_MAX = 2e11
CALLS_MAX = 500         # operators of a reference
WAYS = 3                # sizes of a task that are tried
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
    return [n for n in tree.body if isinstance(n, ast.Assign) and len(n.targets) == 1
            and isinstance(n.targets[0], ast.Name)
            and n.targets[0].id in wanted and isinstance(n.value, ast.Constant) and type(n.value.value) is int
            and n.value.value > 1]


def work_of(text):
    """(bytes of the inputs, bytes that the reference's operators read and write, its flops), from
    shapes alone; None where the task does not run without data or calls more than CALLS_MAX
    operators."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode
    size = lambda tree: sum(t.numel() * t.element_size() for t in torch.utils._pytree.tree_leaves(tree)
                            if isinstance(t, torch.Tensor))
    moved, calls = [0], [0]

    class Moved(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            calls[0] += 1
            if calls[0] > CALLS_MAX:
                raise ValueError("too many operators")
            if not any(r.alias_info for r in function._schema.returns):
                moved[0] += size([args, kwargs]) + size(out)
            return out

    names = {}
    try:
        with torch.device("meta"), torch.no_grad():
            exec(compile(text, "task.py", "exec"), names)
            inputs, init = names["get_inputs"](), names["get_init_inputs"]()
            args, keywords = init_of(init)
            model = names["Model"](*args, **keywords).eval()
            with FlopCounterMode(display=False) as flops, Moved():
                model(*inputs)
        return size(inputs), moved[0], flops.get_total_flops()
    except Exception:
        return None


def grown(text, target, way):
    """The task with about `target` bytes of inputs, or None where there is nothing to grow. A size
    grows by powers of two, so that what divided it still does, and not beyond MOVED_MAX times the
    bytes in the reference's operators or FLOPS_MAX. Way 0 is the first size that only get_inputs()
    uses, 1 the next, and so on: a kernel that takes a whole dimension as one block grows along
    another one."""
    tree = ast.parse(text)
    sizes = size_constants(tree)
    before = work_of(text) if way < len(sizes) else None
    if not before or not before[0]:
        return None
    size, factor = sizes[way].value.value, min(GROWTH_MAX, 1 << max(int(math.log2(target / before[0])), 0))
    while factor > 1:
        sizes[way].value = ast.Constant(size * factor)
        now = ast.unparse(ast.fix_missing_locations(tree))
        work = work_of(now)
        if work and work[0] <= 1.5 * target and work[1] <= MOVED_MAX * target and work[2] <= FLOPS_MAX:
            return now
        factor //= 2
    return None


def grown_tasks(options):
    """label -> task's text, "NAME" for the first way to grow and "NAME:WAY" for each other. Written
    to $OUT/sizes.json once: children and the other commands read it."""
    path = os.path.join(os.environ["OUT"], "sizes.json")
    if not os.path.exists(path):
        texts = {name: read(os.path.join(CORPUS, name, "task.py")) for name in honest()}
        with multiprocessing.Pool(options.jobs) as pool:
            made = pool.starmap(grown, [(texts[name], options.bytes, way) for name in texts for way in range(WAYS)],
                                chunksize=1)
        labels = [f"{name}:{way}" if way else name for name in texts for way in range(WAYS)]
        write_json("sizes.json", {label: text for label, text in zip(labels, made) if text})
    return read_json("sizes.json")


def honest():
    return [name for name in sorted(os.listdir(CORPUS)) if os.path.exists(os.path.join(CORPUS, name, "candidate.py"))]


def pairs(options):
    """label -> (task's text, candidate's text): all first ways, then all second ones."""
    only = options.only.split(",") if options.only else None
    tasks = grown_tasks(options) if options.bytes else {name: read(os.path.join(CORPUS, name, "task.py"))
                                                        for name in honest()}
    labels = sorted((label for label in tasks if not only or label in only),
                    key=lambda label: (label.partition(":")[2], label))
    return {label: (tasks[label], read(os.path.join(CORPUS, label.partition(":")[0], "candidate.py")))
            for label in labels}


# ---- predicting (no GPU) ----

KEPT = ("verdict", "reason", "cost_s", "eager_cost_s", "fused_cost_s", "speedup_eager", "speedup_fused", "launches",
        "not_predicted")


def is_predicted(row):
    return row["verdict"] == "genuine" and bool(row["speedup_eager"])


def grade(options, chosen, rows):
    """One verifier grades `chosen` (label -> texts); rows gets what it says, predicted.json grows
    with each verdict."""
    with tempfile.TemporaryDirectory() as folder:
        listed = []
        for label, texts in chosen.items():
            line = {"id": label}
            for kind, text in zip(("task", "candidate"), texts):
                line[kind] = os.path.join(folder, f"{label}_{kind}.py".replace(":", "_"))
                with open(line[kind], "w") as f:
                    f.write(text)
            listed.append(json.dumps(line))
        done = subprocess.Popen([f"{BUILD}/bench/verify/grade_list", str(options.jobs), "1", "stock",
                                 str(WORK_MS if options.bytes else 0)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        done.stdin.write("\n".join(listed) + "\n")
        done.stdin.close()
        for line in done.stdout:
            graded = json.loads(line)
            if "verdict" not in graded:
                say(f"not judged: {line.rstrip()}")
                continue
            rows[graded["id"]] = row = {k: graded["verdict"].get(k) for k in KEPT}
            say(f"{graded['id']}: {row}")
            write_json("predicted.json", dict(sorted(rows.items())))


def predict(options):
    """Values are judged at sizes that a CPU can bear, times are predicted at the task's own. A
    second way to grow is tried where the first one has no prediction."""
    is_begun = options.go_on and os.path.exists(os.path.join(os.environ["OUT"], "predicted.json"))
    rows = read_json("predicted.json") if is_begun else {}
    all_pairs = pairs(options)
    for way in range(WAYS):
        done = {label.partition(":")[0] for label in rows if is_predicted(rows[label])}
        chosen = {label: texts for label, texts in all_pairs.items()
                  if int(label.partition(":")[2] or 0) == way and label not in rows
                  and label.partition(":")[0] not in done}
        if chosen:
            grade(options, chosen, rows)
    bad = [n for n, r in rows.items() if not is_predicted(r)]
    print(f"wrote {os.environ['OUT']}/predicted.json: {len(rows)} pairs, {len(bad)} of them without a prediction: "
          f"{' '.join(bad)}")


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
    return len(a) == len(b) and all(x.shape == y.shape
                                    and torch.allclose(x.double(), y.double(), rtol=2e-2, atol=2e-2, equal_nan=True)
                                    for x, y in zip(a, b))


def init_of(init):
    """(arguments, keywords) of Model, from what get_init_inputs() gives."""
    return init if len(init) == 2 and isinstance(init[0], list) and isinstance(init[1], dict) else (init, {})


def load(torch, name, task, candidate, folder):
    """(reference, candidate) as calls without arguments that do the same work. Raises where they
    disagree."""
    task = module_of(task, folder, f"task_{name}".replace(":", "_"))
    candidate = module_of(candidate, folder, f"candidate_{name}".replace(":", "_"))
    torch.manual_seed(1)
    inputs, (args, keywords) = task.get_inputs(), init_of(task.get_init_inputs())
    models = []
    for kind in (task.Model, candidate.ModelNew):
        torch.manual_seed(2)
        models.append(kind(*args, **keywords).eval())
    models[1].load_state_dict(models[0].state_dict(), strict=False)
    clone = lambda: torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, inputs)
    own = [clone(), clone()]
    with torch.no_grad():
        outs = [m(*i) for m, i in zip(models, own)]
    torch.cuda.synchronize()
    if not same(torch, *outs):
        raise ValueError("the candidate and the reference disagree on this GPU")
    return [lambda m=m, i=i: m(*i) for m, i in zip(models, own)]


def run_first(self, *args, **keywords):
    """Autotuner.run without a clock, as worker/tracer_driver.py has it: what is judged is what is
    timed."""
    import triton
    self.nargs = dict(zip(self.arg_names, args))
    failure = None
    for config in self.prune_configs(keywords) if len(self.configs) > 1 else self.configs:
        if config.pre_hook:
            config.pre_hook({**self.nargs, **keywords, **config.all_kwargs()})
        self.best_config = config
        try:
            return self.fn.run(*args, **keywords, **config.all_kwargs())
        except (triton.runtime.errors.OutOfResources, triton.CompilationError) as error:
            failure = failure or error
    raise failure


def settle(torch):
    from triton.runtime.autotuner import Autotuner
    Autotuner.run = run_first
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def compile_share(options, share):
    """A child of --compile: fills Triton's cache with its share of the kernels, without a launch:
    it may run beside what others measure."""
    import torch
    import triton
    settle(torch)
    run = triton.runtime.jit.JITFunction.run
    only_compile = lambda self, *args, grid, warmup, **keywords: run(self, *args, grid=grid, warmup=True, **keywords)
    triton.runtime.jit.JITFunction.run = only_compile
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, candidate) in list(pairs(options).items())[share::options.jobs]:
            try:
                task, candidate = (module_of(text, folder, f"{kind}_{name}".replace(":", "_"))
                                   for kind, text in (("task", task), ("candidate", candidate)))
                args, keywords = init_of(task.get_init_inputs())
                with torch.no_grad():
                    candidate.ModelNew(*args, **keywords).eval()(*task.get_inputs())
            except Exception as error:
                say(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            torch.cuda.empty_cache()


def check_share(options, share):
    """A child of --measure: which pairs of its share agree and can be captured; a line each in
    $OUT/checked_SHARE.jsonl. A failed capture or a fault leaves the device unfit: the child begins
    again behind it."""
    import torch
    settle(torch)
    path = os.path.join(os.environ["OUT"], f"checked_{share}.jsonl")
    done = {json.loads(line)["name"] for line in open(path)} if os.path.exists(path) else set()
    with tempfile.TemporaryDirectory() as folder, open(path, "a", buffering=1) as log:
        for name, pair in list(pairs(options).items())[share::options.jobs]:
            if name in done:
                continue
            said, is_captured = "", False
            log.write(json.dumps({"name": name, "error": UNSAID}) + "\n")
            try:
                calls = load(torch, name, *pair, folder)
                is_captured = True
                for call in calls:
                    graph = torch.cuda.CUDAGraph()
                    with torch.no_grad(), torch.cuda.graph(graph):
                        call()
                    graph.replay()
                torch.cuda.synchronize()
                del graph, calls
            except Exception as error:
                said = f"{type(error).__name__}: {str(error)[:200]}"
            log.write(json.dumps({"name": name, "error": said}) + "\n")
            if said and (is_captured or "CUDA error" in said):
                sys.exit(3)
            torch.cuda.empty_cache()


def children(options, flag, seconds):
    """Runs `flag SHARE` for each of options.jobs shares, again while one ends with 3 or a signal.
    How many had to be ended when the time was over."""
    argv = [sys.executable, os.path.abspath(__file__), "--bytes", str(options.bytes), "--only", options.only, "--jobs",
            str(options.jobs), flag]
    live = {share: subprocess.Popen([*argv, str(share)]) for share in range(options.jobs)}
    deadline = time.monotonic() + seconds
    while live and time.monotonic() < deadline:
        for share, child in list(live.items()):
            if child.poll() is None:
                continue
            del live[share]
            if child.returncode == 3 or child.returncode < 0:
                live[share] = subprocess.Popen([*argv, str(share)])
        time.sleep(0.1)
    for child in live.values():
        child.kill()
        child.wait()
    say(f"{flag}: done, {len(live)} cut off")
    return len(live)


def checked(options):
    """label -> error or ""."""
    found = {}
    for share in range(options.jobs):
        path = os.path.join(os.environ["OUT"], f"checked_{share}.jsonl")
        for line in open(path) if os.path.exists(path) else []:
            row = json.loads(line)
            found[row["name"]] = row["error"]
    return found


def times_of(torch, clock, call):
    """Cold and warm microseconds of one forward, from graphs."""
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(2):
                call()
        torch.cuda.synchronize()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        took = a.elapsed_time(b)
        if took > SLOW_MS:
            raise ValueError(f"one forward takes {took:.0f} ms")
        count, repeats = (20, 5) if took < 0.4 else (5, 5) if took < 4 else (1, 3)
        cold, spread = clock.cold_us(call, count, repeats=repeats)
        return {"cold_us": cold, "cold_spread_us": spread, "warm_us": clock.warm_us(call, count, repeats=3)}


def measure_rest(options):
    """A child of --measure: appends a line of JSON a pair to $OUT/pass.jsonl. A capture that fails
    leaves torch's state unfit for the next one, so the child ends behind it and the parent begins
    another with what is left."""
    import torch
    from cost_h200 import Clock
    settle(torch)
    clock = Clock(torch)
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(os.environ["OUT"], "pass.jsonl"), "a",
                                                       buffering=1) as log:
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
                is_fit = isinstance(error, ValueError) or (is_fit and not isinstance(error, torch.AcceleratorError))
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
        argv = [sys.executable, os.path.abspath(__file__), "--measure-rest", "--bytes", str(options.bytes), "--only",
                ",".join(left)]
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
    """Two passes over the first way of each pair that runs here, then what time is left over the
    other ways. With --go-on, over pairs that measured.json has no times of."""
    os.makedirs(os.environ["OUT"], exist_ok=True)
    import torch
    from cost_h200 import machine
    result = {"machine": machine(torch), "bytes": options.bytes, "errors": {}, "passes": [{}, {}]}
    if options.go_on and os.path.exists(os.path.join(os.environ["OUT"], "measured.json")):
        result |= {k: v for k, v in read_json("measured.json").items() if k in ("errors", "passes")}
    first, second = result["passes"]
    timed = {label.partition(":")[0] for label in first if is_timed(first[label])}
    left = [label for label in pairs(options) if label.partition(":")[0] not in timed and label not in result["errors"]]
    if not left:
        return print("measured.json has times of all pairs already")
    options.only = ",".join(left)
    for share in range(options.jobs):
        with open(os.path.join(os.environ["OUT"], f"checked_{share}.jsonl"), "w"):
            pass
    ended = children(options, "--check-share", options.seconds / 3)
    # what the time cut off is no error of the pair
    errors = {n: e for n, e in checked(options).items() if not (ended and e == UNSAID)}
    result["errors"] |= {n: e for n, e in errors.items() if e}
    fit, ways = [n for n in left if errors.get(n) == ""], {}
    for label in fit:
        ways.setdefault(label.partition(":")[0], label)
    say(f"{len(fit)} of {len(errors)} run here")
    for rows, names in ((first, list(ways.values())), (second, list(ways.values())),
                        (first, [n for n in fit if n not in ways.values()])):
        rows.update(measure_pass(options, names))
        write_json("measured.json", result)
        say(f"times of {sum(map(is_timed, first.values()))}, twice of {sum(map(is_timed, second.values()))}")
    result["machine_after"] = machine(torch)
    write_json("measured.json", result)
    for name, row in [*result["errors"].items(), *((n, r["error"]) for n, r in first.items() if "error" in r)]:
        print(f"  {name}: {row}")


# ---- comparing ----

def tau_b(predicted, measured):
    """Kendall's tau-b: concordant less discordant pairs, over the geometric mean of the pairs that
    are no tie on each side."""
    import numpy
    x, y = (numpy.sign(numpy.subtract.outer(v, v)) for v in (numpy.asarray(predicted), numpy.asarray(measured)))
    room = math.sqrt(numpy.count_nonzero(x)) * math.sqrt(numpy.count_nonzero(y))
    return float((x * y).sum() / room) if room else float("nan")


def interval(predicted, measured):
    """95 % of the taus of RESAMPLED corpora, drawn from this one with replacement (seeded). An
    entry that is drawn twice is no pair of entries: it is left out as a tie."""
    import numpy
    draw, found = numpy.random.default_rng(1), []
    predicted, measured = numpy.asarray(predicted), numpy.asarray(measured)
    for _ in range(RESAMPLED):
        chosen = draw.integers(0, len(predicted), len(predicted))
        found.append(tau_b(predicted[chosen], measured[chosen]))
    return numpy.percentile(found, [2.5, 97.5])


def row(what, found):
    """found: (predicted, measured)."""
    if len(found) < 3:
        return print(f"{what:44} {len(found):6} too few pairs")
    predicted, measured = zip(*found)
    ratios = sorted(p / m for p, m in found if m > 0)
    low, high = interval(predicted, measured)
    print(f"{what:44} {len(found):6} {tau_b(predicted, measured):7.3f}   {low:.2f} to {high:.2f} "
          f"{statistics.median(ratios):8.2f} {ratios[len(ratios) // 10]:8.2f} "
          f"{ratios[-1 - len(ratios) // 10]:8.2f}")


def is_seen(label):
    """Half of the corpus, by name: the one whose pairs were looked at one by one while the model
    was made."""
    return zlib.crc32(label.partition(":")[0].encode()) % 2 == 0


def is_timed(row):
    return "eager" in row and min(row[kind]["cold_us"] for kind in ("eager", "candidate")) > 0


def compare(options):
    """Of a pair that was predicted at several sizes the first one that has times counts."""
    predicted, measured = read_json("predicted.json"), read_json("measured.json")
    first, second = measured["passes"]
    both = {}
    for label in sorted(predicted, key=lambda label: (label.partition(":")[2], label)):
        if is_predicted(predicted[label]) and is_timed(first.get(label, {})):
            both.setdefault(label.partition(":")[0], label)
    both = sorted(both.values())
    twice = [n for n in both if is_timed(second.get(n, {}))]
    print(f"{len(both)} of {len({n.partition(':')[0] for n in predicted})} pairs have a prediction and a time; "
          f"{measured['machine']['name']}")
    print(f"{'':44} {'pairs':>6} {'tau-b':>7} {'95 % of it':>14} {'median':>8} {'10 %':>8} {'90 %':>8}   ratios: "
          f"predicted / measured")
    speedup = lambda rows, n, how: rows[n]["eager"][how] / rows[n]["candidate"][how]
    row("speedup against eager, cold L2", [(predicted[n]["speedup_eager"], speedup(first, n, "cold_us")) for n in both])
    for what, half in (("  the half that was looked at", [n for n in both if is_seen(n)]),
                       ("  the other half", [n for n in both if not is_seen(n)])):
        row(what, [(predicted[n]["speedup_eager"], speedup(first, n, "cold_us")) for n in half])
    row("speedup against eager, warm L2", [(predicted[n]["speedup_eager"], speedup(first, n, "warm_us")) for n in both])
    row("the same, measured twice (second / first), cold",
        [(speedup(second, n, "cold_us"), speedup(first, n, "cold_us")) for n in twice])
    row("the same, measured twice (second / first), warm",
        [(speedup(second, n, "warm_us"), speedup(first, n, "warm_us")) for n in twice])
    row("the candidate's time, cold L2",
        [(predicted[n]["cost_s"] * 1e6, first[n]["candidate"]["cold_us"]) for n in both])
    row("eager's time, cold L2", [(predicted[n]["eager_cost_s"] * 1e6, first[n]["eager"]["cold_us"]) for n in both])
    worst = sorted(filter(is_seen, both),
                   key=lambda n: abs(math.log(predicted[n]["speedup_eager"] / speedup(first, n, "cold_us"))),
                   reverse=True)[:10]
    print("furthest off of the half that was looked at (predicted, measured speedup; candidate predicted, "
          "measured us; eager predicted, measured us):")
    for n in worst:
        p, m = predicted[n], first[n]
        print(f"  {n:36} {p['speedup_eager']:6.2f} {speedup(first, n, 'cold_us'):6.2f}   {p['cost_s'] * 1e6:8.1f} "
              f"{m['candidate']['cold_us']:8.1f}"
              f"   {p['eager_cost_s'] * 1e6:8.1f} {m['eager']['cold_us']:8.1f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    for flag in ("predict", "measure", "compare"):
        what.add_argument(f"--{flag}", action="store_true")
    what.add_argument("--compile", action="store_true")
    what.add_argument("--compile-share", type=int)
    what.add_argument("--check-share", type=int)
    what.add_argument("--measure-rest", action="store_true")
    p.add_argument("--go-on", action="store_true", help="keep what predicted.json or measured.json has already")
    p.add_argument("--bytes", type=int, default=0)
    p.add_argument("--only", default="", help="names of pairs, with commas")
    p.add_argument("--seconds", type=float, default=LIMIT_S, help="of --measure")
    p.add_argument("--jobs", type=int, default=2, help="processes at a time (--measure: that check before it times)")
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
    if o.compile:
        return children(o, "--compile-share", o.seconds)
    return compile_share(o, o.compile_share) if o.compile_share is not None else check_share(o, o.check_share)


if __name__ == "__main__":
    main()
