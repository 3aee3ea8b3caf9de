"""KernelBench's own check, as its checkout has it, over folders of candidates on this machine's
GPU; and a table beside hone's verdicts.

usage: stock_check.py run --kernelbench CHECKOUT --out OUT.jsonl [--jobs N] [--seconds S]
                          [--trials 5] [--only WORD,...] [--compare] FOLDER...
       stock_check.py table STOCK.jsonl HONE.jsonl...
       stock_check.py runs STOCK.jsonl HONE.jsonl...
       stock_check.py run --kernelbench CHECKOUT --out OUT.jsonl --list MUTANTS.jsonl [...]
       stock_check.py mutants VERDICTS.jsonl STOCK.jsonl...

FOLDER holds NAME/task.py with NAME/candidate.py and maybe NAME/twin.py. Each candidate runs in a
process of its own, which is killed after 120 s: what KernelBench calls is `eval_kernel_against_ref`
with backend triton, five trials and the precision that the task names, no performance. HONE.jsonl
is what tests/gpu/corpus writes for the same folders. `runs` says, of a run with many trials, in how
many of them what is genuine by hone was right on the GPU, and which of those that hone calls wrong
for a race were wrong there at least once. With --compare a candidate that KernelBench's check
cannot compare (several outputs, outputs that are no tensors, inputs that it casts) is run as often
by this script, outputs as trees and integers exact, under KernelBench's own tolerances. Candidates
run without any sandbox, exploits among them: a machine to throw away is the place for it.

MUTANTS.jsonl is what `tools/kernel_mutants.py --list` writes, VERDICTS.jsonl what
bench/verify/grade_list makes of it (hone on the CPU); `mutants` tells how many of those that hone
kills, by its reason, and of those that survive pass on the GPU.
"""
import argparse
import collections
import importlib
import importlib.util
import json
import os
import re
import signal
import sys
import time
import types

LIMIT_S = 120
HALVES = {"float16": "float16", "half": "float16", "bfloat16": "bfloat16"}


def kernelbench(checkout):
    """The checkout's eval.py. What it imports for other purposes (asking language models,
    validating records) may be missing here."""
    import torch
    sys.path.insert(0, os.path.join(checkout, "src"))
    try:
        import pydantic    # there, or a stand-in
    except ImportError:
        class BaseModel:
            def __init__(self, **fields):
                for cls in reversed(type(self).__mro__):
                    for name in getattr(cls, "__annotations__", {}):
                        setattr(self, name, fields.get(name, getattr(cls, name, None)))
        sys.modules["pydantic"] = types.SimpleNamespace(BaseModel=BaseModel)
    for name in ("requests", "dotenv", "tqdm", "openai", "litellm", "datasets"):
        try:
            importlib.import_module(name)
        except ImportError:
            m = types.ModuleType(name)
            for attribute in ("load_dotenv", "tqdm", "OpenAI", "completion", "load_dataset"):
                setattr(m, attribute, lambda *a, **k: None)
            sys.modules[name] = m
    # Its defaults ask for the current device as the module is read; the GPU is opened behind the
    # fork alone.
    available, torch.cuda.is_available = torch.cuda.is_available, lambda: False
    module = importlib.import_module("kernelbench.eval")
    torch.cuda.is_available = available
    return module


def precision_of(task):
    import torch
    found = re.search(r"torch\.(float16|half|bfloat16)\b|\.(half|bfloat16)\(\)", task)
    return getattr(torch, HALVES[found.group(1) or found.group(2)] if found else "float32")


def module_of(path, name):
    """Triton reads a kernel's source from its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agrees(a, b):
    """Whether two trees of outputs are the same: floats within KernelBench's tolerance for their
    dtype (1e-4, 1e-2 for halves; one step of an fp8), all else exactly."""
    import torch
    a, b = torch.utils._pytree.tree_leaves(a), torch.utils._pytree.tree_leaves(b)
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if not isinstance(x, torch.Tensor):
            same = x == y
        elif x.shape != y.shape or x.dtype != y.dtype:
            same = False
        elif x.is_floating_point() or x.is_complex():
            bound = 1e-4 if x.element_size() >= 4 else 1e-2 if x.element_size() == 2 else 0.125
            wide = torch.complex128 if x.is_complex() else torch.float64
            same = torch.allclose(x.to(wide), y.to(wide), rtol=bound, atol=bound, equal_nan=True)
        else:
            same = torch.equal(x, y)
        if not same:
            return False
    return True


def compare(task, candidate, trials):
    """How many of `trials` runs agree, each with its own seed, inputs and weights. Modules are in
    training mode, as in KernelBench, unless the reference draws at random there and not in eval
    mode; no product is TF32's."""
    import torch
    from torch.utils._pytree import tree_map
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    task, candidate = module_of(task, "task"), module_of(candidate, "candidate")
    init = getattr(task, "get_init_inputs", list)()
    args, keywords = init if len(init) == 2 and isinstance(init[0], list) and isinstance(init[1], dict) else (init, {})
    on_gpu = lambda x: x.cuda() if isinstance(x, torch.Tensor) else x
    clone = lambda x: x.clone() if isinstance(x, torch.Tensor) else x

    def run(kind, seed, is_eval, inputs, draw=0):
        torch.manual_seed(seed)
        model = kind(*args, **keywords).cuda()
        if is_eval:
            model.eval()
        torch.manual_seed(seed + draw)
        with torch.no_grad():
            out = model(*tree_map(clone, inputs))
        torch.cuda.synchronize()
        return out

    torch.manual_seed(1)
    inputs = tree_map(on_gpu, task.get_inputs())
    is_eval = not agrees(run(task.Model, 1, False, inputs), run(task.Model, 1, False, inputs, draw=1))
    right = 0
    for seed in range(1000, 1000 + trials):
        torch.manual_seed(seed)
        inputs = tree_map(on_gpu, task.get_inputs())
        right += agrees(*(run(kind, seed, is_eval, inputs) for kind in (task.Model, candidate.ModelNew)))
    return right


def judge(module, task, candidate, trials, is_compared, fd):
    """In the child: the check, and what it said."""
    import torch
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    source = open(task).read()
    try:
        r = module.eval_kernel_against_ref(source, open(candidate).read(), num_correct_trials=trials, backend="triton",
                                           device=torch.device("cuda:0"), precision=precision_of(source))
        why = [r.metadata.get(k) for k in ("runtime_error", "correctness_issue", "compilation_error")]
        said = {"compiled": bool(r.compiled), "passes": bool(r.correctness),
                "right": str(r.metadata.get("correctness_trials") or ""),
                "why": str(next((w for w in why if w), ""))[:200]}
    except BaseException as e:
        said = {"compiled": False, "passes": False, "why": f"{type(e).__name__}: {e}"[:200]}
    if is_compared and runs_of(said) is None:
        try:
            said["compared"] = f"({compare(task, candidate, trials)} / {trials})"
        except BaseException as e:
            said["compared"] = f"{type(e).__name__}: {e}"[:200]
    os.write(fd, json.dumps(said).encode())
    os._exit(0)


def start(module, case, trials, is_compared):
    name, task, candidate = case
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        # An exploit writes into every descriptor that it finds.
        os.closerange(3, into)
        os.closerange(into + 1, 1 << 12)
        judge(module, task, candidate, trials, is_compared, into)
    os.close(into)
    return pid, (name, out, time.time())


def finish(name, out, status, began):
    said = os.read(out, 1 << 16)
    os.close(out)
    try:
        record = json.loads(said)
    except ValueError:
        record = {"compiled": False, "passes": False, "why": f"the process ended with status {status}"}
    return dict(record, name=name, seconds=round(time.time() - began, 3))


def cases_of(folders):
    found = []
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            for file, label in (("candidate.py", name), ("twin.py", f"{name}, its twin")):
                task, candidate = os.path.join(folder, name, "task.py"), os.path.join(folder, name, file)
                if os.path.exists(task) and os.path.exists(candidate):
                    found.append((label, task, candidate))
    return found


def run(args):
    os.environ.setdefault("TRITON_CACHE_DIR", "/tmp/stock_check_triton")
    module = kernelbench(args.kernelbench)
    import triton    # imported once, in front of all forks
    words = args.only.split(",")
    listed = [json.loads(line) for line in open(args.list)] if args.list else []
    cases = cases_of(args.folders) + [(o["id"], o["task"], o["candidate"]) for o in listed]
    waiting = [c for c in cases if any(w in c[0] for w in words)][::-1]
    running, end = {}, time.time() + args.seconds
    total = len(waiting)
    with open(args.out, "w") as log:
        done = 0
        while running or waiting and time.time() < end:
            while waiting and len(running) < args.jobs and time.time() < end:
                pid, what = start(module, waiting.pop(), args.trials, args.compare)
                running[pid] = what
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                name, out, began = running.pop(pid)
                try:
                    os.killpg(pid, signal.SIGKILL)      # what it left behind
                except ProcessLookupError:
                    pass
                print(json.dumps(finish(name, out, status, began)), file=log, flush=True)
                done += 1
                continue
            for pid, (name, out, began) in running.items():
                if time.time() - began > min(LIMIT_S, args.seconds):
                    try:
                        os.killpg(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            time.sleep(0.01)
    print(f"{done} of {total} candidates judged")


def table(args):
    stock = {o["name"]: o for o in map(json.loads, open(args.stock))}
    rows, disagree = collections.Counter(), []
    for o in (o for path in args.hone for o in map(json.loads, open(path))):
        s = stock.get(o["name"])
        if not s:
            continue
        kind = "honest" if o.get("honest") else "wrong or cheating"
        rows[kind, "all"] += 1
        rows[kind, "hone"] += o["verdict"] == "genuine"
        rows[kind, "stock"] += s["passes"]
        known = o["kernelbench"]["correctness"]
        rows[kind, "predicted"] += known is not None
        rows[kind, "alike"] += known is not None and known == s["passes"]
        if known is not None and known != s["passes"]:
            disagree.append((o["name"], known, s["passes"], s["why"]))
    print("| | candidates | genuine by hone | pass KernelBench's check | of these predicted in the record | as it was "
          "|")
    print("|---|---|---|---|---|---|")
    for kind in ("honest", "wrong or cheating"):
        print(f"| {kind} | " + " | ".join(str(rows[kind, k]) for k in ("all", "hone", "stock", "predicted", "alike"))
              + " |")
    for name, known, found, why in disagree:
        print(f"# {name}: record {known}, here {found} {why}")


def runs_of(record):
    """(right, of how many), as KernelBench says it or --compare; None where neither came to a
    comparison."""
    said = [re.match(r"\((\d+) / (\d+)\)", record.get(key, "")) for key in ("right", "compared")]
    found = said[0] or said[1]
    return tuple(map(int, found.groups())) if found else None


def runs(args):
    stock = {o["name"]: o for o in map(json.loads, open(args.stock))}
    counts = collections.Counter()
    for o in (o for path in args.hone for o in map(json.loads, open(path))):
        s, n = stock.get(o["name"]), runs_of(stock.get(o["name"], {}))
        kind = "genuine" if o["verdict"] == "genuine" else "race" if o["reason"] == "race" else None
        if not s or not kind:
            continue
        counts[kind] += 1
        counts[kind, "compared"] += n is not None
        counts[kind, "always right"] += n is not None and n[0] == n[1]
        if kind == "race" or n is None or n[0] < n[1]:
            said = f"right in {n[0]} of {n[1]}" if n else s.get("compared", s["why"])
            print(f"# {o['name']}: {o['verdict']}/{o['reason']};", said)
    print("| by hone | candidates | compared on the GPU | right in every run | wrong at least once |")
    print("|---|---|---|---|---|")
    for kind in ("genuine", "race"):
        compared, right = counts[kind, "compared"], counts[kind, "always right"]
        print(f"| {kind} | {counts[kind]} | {compared} | {right} | {compared - right} |")


def is_stillborn(v):
    """As in tools/kernel_mutants.py: no compiler takes it."""
    return (v["verdict"] == "invalid" and v["stage"] in ("format", "static", "trace", "compile")
            and v["reason"] not in ("nondeterministic", "data-dependent"))


def mutants(args):
    stock = {o["name"]: o for path in args.stock for o in map(json.loads, open(path))}
    rows, none = collections.Counter(), 0
    for o in map(json.loads, open(args.verdicts)):
        v, s = o["verdict"], stock.get(o["id"])
        if s is None or is_stillborn(v):
            none += s is not None
            continue
        survives = v["verdict"] == "genuine"
        for kind in (f"{v['verdict']}/{v['reason']}", "survive" if survives else "killed"):
            rows[kind, "all"] += 1
            rows[kind, "passes"] += s["passes"]
            rows[kind, "compared"] += runs_of(s) is not None
        if not survives and s["passes"]:
            print(f"# {o['id']}: {v['verdict']}/{v['reason']}")
    print(f"{none} more are no mutants: no compiler takes them\n")
    print("| by hone | mutants | pass KernelBench's check | come to no comparison there |")
    print("|---|---|---|---|")
    for kind in sorted({k for k, _ in rows}, key=lambda k: ("/" in k, -rows[k, "all"])):
        count, compared = rows[kind, "all"], rows[kind, "compared"]
        print(f"| {kind} | {count} | {rows[kind, 'passes']} | {count - compared} |")


def main():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="what", required=True)
    r = sub.add_parser("run")
    r.add_argument("--kernelbench", required=True)
    r.add_argument("--out", required=True)
    r.add_argument("--jobs", type=int, default=os.cpu_count())
    r.add_argument("--seconds", type=float, default=3600)
    r.add_argument("--trials", type=int, default=5)
    r.add_argument("--only", default="", help="names that contain one of these words, with commas between")
    r.add_argument("--compare", action="store_true", help="run what its check cannot compare by ours, too")
    r.add_argument("--list", help="mutants, as tools/kernel_mutants.py lists them")
    r.add_argument("folders", nargs="*")
    for name in ("table", "runs"):
        t = sub.add_parser(name)
        t.add_argument("stock")
        t.add_argument("hone", nargs="+")
    m = sub.add_parser("mutants")
    m.add_argument("verdicts")
    m.add_argument("stock", nargs="+")
    args = p.parse_args()
    {"run": run, "table": table, "runs": runs, "mutants": mutants}[args.what](args)


if __name__ == "__main__":
    main()
