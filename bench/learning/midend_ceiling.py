"""What a mid-end could gain at most over genuine kernels on held-out structures, by predicted time.

    midend_ceiling.py DIR [--model M] [--adapter A] [--tasks FILE] [--limit N] [--samples N]
        [--styles N] [--choices N] [--cost_size N] [--verdicts N]

The frontend (--model) is sampled at temperature 1, and of each structure the first task with a
genuine kernel stays, with its cheapest one. Beside it stand the cheapest of the generator's
answers, and the frontend's kernel with block size and warps chosen by `hone tune --search plain`.
Where nothing is faster the frontend's kernel stays. Without a model (--model "") the first task of
each structure stands for itself.

The generator's answers beside one another say what others could gain: a frontend that drew one of
them by chance, and one that always took the dearest. The kernel with a launch an operator is where
the demo's pairs of the mid-end begin. Times within 2 % are one time, as they are for rewards. What
DIR has already is not made again."""
import argparse, gzip, json, math, os, re, subprocess

HONE = os.environ.get("HONE", "build/release/hone")
NOISE = 0.02
SPACE = """# tune: TILE = 256 | 512 | 1024 | 2048 | 4096
# tune: WARPS = 1 | 2 | 4 | 8
TILE = {tile}
WARPS = 4

"""
PLAIN = ("--prompt_template", "recipes/prompts/small-frontend.txt", "--chat_template", "plain")
SLOW = ("--prompt_template", "recipes/prompts/small-midend.txt", "--chat_template", "plain")


def rows(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as f:
        return [json.loads(line) for line in f]


def hone(out, *args):
    if not os.path.exists(out):
        subprocess.run([HONE, *args, "--out", out], check=True, stdout=subprocess.DEVNULL)
    return rows(out)


def frontend(o, common):
    """structure -> (a task's name, the cheapest genuine kernel, its time)"""
    adapter = ("--adapter", o.adapter) if o.adapter else ()
    found = hone(f"{o.dir}/frontend.jsonl", "eval", "--model", o.model, *adapter, "--tasks", o.tasks, "--split", "test",
                 "--limit", str(o.limit), *PLAIN, "--num_samples", str(o.samples), "--temperature", "1",
                 "--max_completion_length", "400", *common)
    best = {}
    for r in found:
        cost_s = r["verdict"].get("cost_s")
        if r["verdict"]["verdict"] != "genuine" or not cost_s:
            continue
        code = r["answer"].rsplit("```python\n", 1)[1].split("```")[0]
        task, _, least = best.get(r["structure"], (r["task"], None, math.inf))
        if task == r["task"] and cost_s < least:
            best[r["structure"]] = (task, code, cost_s)
    print(f"frontend: {len({r['structure'] for r in found})} structures asked, {len(best)} with a genuine kernel that "
          "has a predicted time")
    return best


def tuned(o, name, task, code, cost_s):
    """The time that a search over block size and warps finds.

    It is the kernel's own where its text has not the form that the generator writes."""
    m = re.search(r", BLOCK=(\d+)\)", code)
    if not m or code.count("@triton.jit") != code.count(f", BLOCK={m[1]})"):
        return cost_s
    head, body = code.split("class ModelNew", 1)
    body = body.replace(f"BLOCK={m[1]})", "BLOCK=TILE, num_warps=WARPS)").replace(f"cdiv(n, {m[1]})", "cdiv(n, TILE)")
    at = head.index("@triton.jit")
    kernel = head[:at] + SPACE.format(tile=m[1]) + head[at:] + "class ModelNew" + body
    paths = [f"{o.dir}/tune/{name}.{part}.py" for part in ("task", "kernel")]
    for path, text in zip(paths, (task["source"], kernel)):
        with open(path, "w") as f:
            f.write(text)
    p = subprocess.run([HONE, "tune", "--task", paths[0], "--candidate", paths[1], "--verdicts", str(o.verdicts),
                        "--num_correct_trials", "1", "--cost_size", o.cost_size, "--store", f"{o.dir}/cache.db",
                        "--json"], capture_output=True, text=True)
    if p.returncode:
        print(f"{task['name']}: not tuned: {p.stderr.strip()}")
        return cost_s
    return json.loads(p.stdout)["best_s"]


def band(ratio):
    return 1.0 if abs(ratio - 1) <= NOISE else ratio


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def line(name, ratios):
    """ratios: of each structure, how many times as fast; what is slower is not taken."""
    if not ratios:
        return
    faster = [r for r in ratios if r > 1]
    print(f"{name:62} x{geomean([max(1, r) for r in ratios]):.3f}   faster {len(faster)} of {len(ratios)}"
          + (f", the most x{max(faster):.2f}" if faster else ""))


def frontend_lines(o, best, task_of, found):
    tune = {s: tuned(o, f"{i:03d}", task_of[task], code, cost_s)
            for i, (s, (task, code, cost_s)) in enumerate(best.items())}
    own = {s: cost_s for s, (_, _, cost_s) in best.items()}
    both = sorted(own.keys() & found.keys())
    line("the frontend's kernels, over them the best answer", [band(own[s] / min(found[s])) for s in both])
    line(f"the frontend's kernels, over them hone tune ({o.verdicts} verdicts)", [band(own[s] / tune[s]) for s in both])
    line("the frontend's kernels, over them the better of both", [band(own[s] / min(tune[s], *found[s])) for s in both])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("dir")
    a.add_argument("--tasks", default="recipes/demo/tasks.jsonl.gz")
    a.add_argument("--model", default="recipes/demo/start")
    a.add_argument("--adapter")
    a.add_argument("--limit", type=int, default=48)
    a.add_argument("--samples", type=int, default=2)
    a.add_argument("--styles", type=int, default=6)
    a.add_argument("--choices", type=int, default=1)
    a.add_argument("--verdicts", type=int, default=8)
    a.add_argument("--cost_size", default="16777216", help="judged, stock, or elements of the largest input")
    o = a.parse_args()
    os.makedirs(f"{o.dir}/tune", exist_ok=True)
    common = ("--num_correct_trials", "1", "--verify_threads", "1", "--cost_size", o.cost_size,
              "--store", f"{o.dir}/cache.db")
    task_of = {r["name"]: r for r in rows(o.tasks) if r["split"] == "test"}
    first = {t["structure"]: name for name, t in reversed(task_of.items())}
    best = frontend(o, common) if o.model else {}
    # The generator's answers to the tasks that the frontend has solved, or to the first of each
    # structure.
    chosen = [task for task, _, _ in best.values()] if o.model else list(first.values())[:o.limit]
    with open(f"{o.dir}/tasks.jsonl", "w") as f:
        f.writelines(json.dumps(task_of[task]) + "\n" for task in chosen)
    synth = ("pairs", "synth", "--tasks", f"{o.dir}/tasks.jsonl", "--style", "0", *common)
    found = {}
    for r in hone(f"{o.dir}/answers.jsonl", *synth, *PLAIN, "--styles", str(o.styles), "--choices", str(o.choices)):
        if r.get("cost_s"):
            found.setdefault(r["structure"], []).append(r["cost_s"])
    print(f"geometric mean over structures, times at --cost_size {o.cost_size}:")
    frontend_lines(o, best, task_of, found)
    line("an answer by chance, over it the best answer", [band(geomean(c) / min(c)) for c in found.values()])
    line("the dearest answer, over it the best answer", [band(max(c) / min(c)) for c in found.values()])
    if o.choices > 1:
        return
    pairs = hone(f"{o.dir}/slow.jsonl", *synth, *SLOW, "--stage", "midend")
    slow = {r["structure"]: r["profile"]["cost_s"] for r in pairs}
    line("a launch an operator, over it the best answer",
         [band(slow[s] / min(c)) for s, c in found.items() if s in slow])


main()
