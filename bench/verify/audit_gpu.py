"""All tasks of a KernelBench checkout on this machine's GPU, at their own sizes: does the reference
run there, is it finite, does it repeat itself, how far is it from itself in fp64 and with TF32, how
much memory does it need, and would something that computes nothing pass for right?

usage: audit_gpu.py run CHECKOUT --out OUT.jsonl [--levels 1,2,3] [--jobs N] [--seconds S]
                        [--limit_s 60] [--only WORD,...]
       audit_gpu.py table OUT.jsonl

Each task runs in a process of its own, inputs and parameters made on the GPU under seeds of this
program. Tasks that ran out of memory beside others run once more alone. Errors are hone's: |y - r|
/ (|r| + mean |r|), the largest over the output, with r the fp64 reference. `null` names what passes
for right with a bound of max(5e-5, 8 x the reference's own error): zeros, the first input, the mean
of another input's outputs, these themselves; `null_stock` what passes KernelBench's check, an
allclose with 1e-4.
"""
import argparse
import collections
import json
import os
import signal
import time

FLOOR, FACTOR, USABLE = 5e-5, 8, 2e-4
INIT_SEED, SEEDS = 42, (1001, 1002)
NO_MEMORY = 75


def outputs_of(y):
    import torch
    if isinstance(y, torch.Tensor):
        return [y]
    return ([t for v in (y.values() if isinstance(y, dict) else y) for t in outputs_of(v)]
            if isinstance(y, (tuple, list, dict)) else [])


def scaled(y, r):
    """The largest scaled error, by pieces: an output may have gigabytes."""
    worst, scale = 0.0, r.abs().double().mean().item()
    for a, b in zip(y.reshape(-1).split(1 << 26), r.reshape(-1).split(1 << 26)):
        b = b.double()
        worst = max(worst, ((a.double() - b).abs() / (b.abs() + scale)).nan_to_num(float("inf") if scale
            else 0.0).max().item())
    return worst


def close(y, r):
    return all(bool(((a - b).abs() <= 1e-4 + 1e-4 * b.abs()).all())
               for a, b in zip(y.reshape(-1).split(1 << 26), r.reshape(-1).split(1 << 26)))


def moved(value, double):
    import torch
    if isinstance(value, torch.Tensor):
        return value.double() if double and value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, double) for v in value)
    return value


class Task:
    def __init__(self, path):
        import torch
        self.space = {"__name__": "task"}
        exec(compile(open(path).read(), path, "exec"), self.space)
        torch.set_default_device("cuda")

    def inputs(self, seed):
        import torch
        torch.manual_seed(seed)
        return [v.cuda() if isinstance(v, torch.Tensor) else v for v in self.space["get_inputs"]()]

    def model(self, double=False):
        import torch
        torch.manual_seed(INIT_SEED)
        model = self.space["Model"](*[v.cuda() if isinstance(v, torch.Tensor) else v
                                      for v in self.space["get_init_inputs"]()]).cuda()
        return model.double() if double else model

    def run(self, inputs, double=False, tf32=False):
        import torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        model = self.model(double)
        torch.manual_seed(INIT_SEED)
        with torch.no_grad():
            return [t.detach() for t in outputs_of(model(*moved(inputs, double)))]


def audit(path, tell):
    """In the child. What is found is told at once: a task that is killed leaves what it had."""
    import torch
    task = Task(path)
    inputs = task.inputs(SEEDS[0])
    begin = time.time()
    first = task.run(inputs)
    torch.cuda.synchronize()
    tell(runs=True, outputs=len(first), output_bytes=sum(t.numel() * t.element_size() for t in first),
         input_bytes=sum(t.numel() * t.element_size() for t in outputs_of(inputs)),
         first_run_s=round(time.time() - begin, 3), memory_bytes=torch.cuda.max_memory_allocated(),
         finite=all(bool(torch.isfinite(t).all()) for t in first if t.is_floating_point()))
    again = task.run(task.inputs(SEEDS[0]))
    tell(repeats=all(torch.equal(a, b) for a, b in zip(first, again)),
         repeat_error=max((scaled(a, b) for a, b in zip(again, first) if b.is_floating_point()), default=0.0))
    del again
    coarse = task.run(inputs, tf32=True)
    tell(tf32_error=max((scaled(a, b) for a, b in zip(coarse, first) if b.is_floating_point()), default=0.0),
         tf32_stock=all(close(a.float(), b.float()) for a, b in zip(coarse, first)))
    del coarse
    # Outputs that nobody computed: by KernelBench's check now, by ours once the reference's own
    # error is known.
    other = task.run(task.inputs(SEEDS[1]))
    given = [t for t in outputs_of(inputs)]
    nulls = {"zeros": lambda i, t: torch.zeros_like(t),
             "mean": lambda i, t: torch.full_like(t, other[i].float().mean().item()) if t.is_floating_point() else None,
             "first input": lambda i, t: given[0] if given and given[0].shape == t.shape and given[0].dtype == t.dtype
             else None, "another input's outputs": lambda i, t: other[i] if other[i].shape == t.shape else None}
    made = lambda name: [nulls[name](i, t) for i, t in enumerate(first)]
    passes = lambda name, check: all(v is not None and check(v, t) for v, t in zip(made(name), first))
    tell(null_stock=[n for n in nulls if passes(n, lambda v, t: close(v.float(), t.float()))])
    try:
        exact = task.run(inputs, double=True)
        error = max((scaled(a, b) for a, b in zip(first, exact) if b.is_floating_point()), default=0.0)
        bound = max(FLOOR, FACTOR * min(error, USABLE))
        tell(fp64=True, error=error,
             null=[n for n in nulls
                   if passes(n, lambda v, t: scaled(v, t) <= bound if t.is_floating_point() else torch.equal(v, t))])
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as e:
        tell(fp64=False, why=f"fp64: {type(e).__name__}: {e}"[:200])


def child(path, fd):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    tell = lambda **found: os.write(fd, (json.dumps(found) + "\n").encode())
    import torch
    try:
        audit(path, tell)
        tell(done=True)
    except torch.cuda.OutOfMemoryError as e:
        tell(why=f"memory: {e}"[:200])
        os._exit(NO_MEMORY)
    except BaseException as e:
        tell(why=f"{type(e).__name__}: {e}"[:200])
    os._exit(0)


def start(path):
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(out)
        child(path, into)
    os.close(into)
    return pid, out


def record_of(out):
    text = b""
    while part := os.read(out, 1 << 16):
        text += part
    os.close(out)
    found = {"runs": False}
    for line in text.decode(errors="replace").splitlines():
        try:
            found.update(json.loads(line))
        except ValueError:
            pass
    return found


def run(args):
    import torch    # imported once, in front of all forks; the GPU is opened behind them alone
    folder = lambda k: os.path.join(args.checkout, "KernelBench", f"level{k}")
    waiting = [(f"level{k}/{name[:-3]}", os.path.join(folder(k), name)) for k in args.levels.split(",")
               for name in sorted(os.listdir(folder(k))) if name.endswith(".py")][::-1]
    waiting = [t for t in waiting if any(w in t[0] for w in args.only.split(","))]
    alone, running, end, total, done = [], {}, time.time() + args.seconds, len(waiting), 0
    with open(args.out, "w") as log:
        while running or (waiting or alone) and time.time() < end:
            if time.time() < end:
                while waiting and len(running) < args.jobs:
                    name, path = waiting.pop()
                    pid, out = start(path)
                    running[pid] = (name, path, out, time.time(), False)
                if not waiting and not running and alone:
                    name, path = alone.pop()
                    pid, out = start(path)
                    running[pid] = (name, path, out, time.time(), True)
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                name, path, out, began, was_alone = running.pop(pid)
                record = record_of(out)
                if os.waitstatus_to_exitcode(status) == NO_MEMORY and not was_alone:
                    alone.append((name, path))
                    continue
                if not record.get("done") and "why" not in record:
                    record["why"] = (
                        f"ended with status {os.waitstatus_to_exitcode(status)} after {time.time() - began:.1f} s")
                print(json.dumps(dict(record, name=name, seconds=round(time.time() - began, 2), alone=was_alone)),
                      file=log, flush=True)
                done += 1
                continue
            for pid, (name, path, out, began, was_alone) in running.items():
                if time.time() - began > args.limit_s or time.time() > end + 5:
                    os.killpg(pid, signal.SIGKILL)
            time.sleep(0.01)
    print(f"{done} of {total} tasks audited")


def table(args):
    rows = [json.loads(line) for line in open(args.out)]
    by = collections.Counter()
    for r in rows:
        level = r["name"].split("/")[0]
        facts = {"tasks": True, "run": r["runs"], "finite": r.get("finite"), "bit for bit again": r.get("repeats"),
                 "fp64": r.get("fp64"), "own error up to 2e-4": r.get("fp64") and r["error"] <= USABLE,
                 "TF32 passes KernelBench's check": r.get("tf32_stock"),
                 "an output nobody computed passes KernelBench's check": r.get("null_stock"),
                 "one passes hone's bound": r.get("null")}
        for name, holds in facts.items():
            by[level, name] += bool(holds)
    names = list(dict.fromkeys(n for _, n in by))
    levels = sorted({level for level, _ in by})
    print("| | " + " | ".join(levels) + " |\n|---|" + "---|" * len(levels))
    for n in names:
        print(f"| {n} | " + " | ".join(str(by[level, n]) for level in levels) + " |")
    for r in rows:
        notes = [w for w in (r.get("why"), "not finite" if r.get("finite") is False else "",
                             f"error {r['error']:.1e}" if r.get("error", 0) > USABLE else "",
                             f"repeats within {r['repeat_error']:.1e}" if r.get("repeats") is False else "",
                             "passes ours: " + ", ".join(r["null"]) if r.get("null") else "",
                             "passes KernelBench's: " + ", ".join(r["null_stock"]) if r.get("null_stock") else "") if w]
        if notes:
            print(f"# {r['name']}: {'; '.join(notes)}")


def main():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="what", required=True)
    r = sub.add_parser("run")
    r.add_argument("checkout")
    r.add_argument("--out", required=True)
    r.add_argument("--levels", default="1,2,3")
    r.add_argument("--jobs", type=int, default=4)
    r.add_argument("--seconds", type=float, default=3600)
    r.add_argument("--limit_s", type=float, default=60)
    r.add_argument("--only", default="", help="names that contain one of these words, with commas between")
    t = sub.add_parser("table")
    t.add_argument("out")
    args = p.parse_args()
    (run if args.what == "run" else table)(args)


if __name__ == "__main__":
    main()
