"""hone rl, killed and started again, ends with the bytes of the run that was never stopped; other
settings are refused.  timeout: 1200

The policy (tests/rl/tiny_policy.sh) writes genuine kernels often but not always, so rewards have
variance and every step moves the weights. This process is the subreaper of what it starts: whatever
outlives a killed hone becomes its child and is found. The first run and its kills have workers that
start as a user's do, those that follow warm ones."""
import ctypes, json, os, random, shutil, signal, sqlite3, subprocess, sys, time

sys.path.append("tests")
from command import check, done, hone, run, tiny_policy, warm_workers, work_folder

work = work_folder("rl_resume")
warm = []   # processes of warm workers, whose children are hone's


def command(out, *more):
    adapter = () if "--no-use_peft" in more else ("--lora_r", "4", "--lora_dropout", "0.1")
    return [hone, "rl", "--model", f"{policy}/sft/final", "--tasks", f"{work}/tasks.jsonl",
            "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--num_generations", "4",
            "--generation_batch_size", "8", "--max_completion_length", "170", "--max_tokens", "1024",
            "--max_steps", "4", "--save_steps", "1", "--num_correct_trials", "1", "--learning_rate", "1e-4",
            *adapter, "--seed", "1", "--threads", "1", "--verify_threads", "1", "--output_dir", f"{work}/{out}", *more]


def lines(out):
    try:
        return open(f"{work}/{out}/metrics.jsonl").read().count("\n")
    except OSError:
        return 0


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return {int(n) for n in f.read().split()}


def orphans_gone():
    """Reaps what became ours; false when something still lives after 20 s."""
    deadline = time.time() + 20
    while True:
        left = children(os.getpid()) - {p.pid for p in warm}
        ended = [pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]]
        if not ended and not left and not any(children(p.pid) for p in warm):
            return True
        if time.time() > deadline:
            return False
        time.sleep(0.05)


def kill_when(p, moment):
    """moment: a number of metrics lines beyond those that are there, or seconds. False when hone
    ended before."""
    seconds, count = (moment, None) if isinstance(moment, float) else (None, moment)
    begin, deadline = time.time(), time.time() + 200
    while p.poll() is None and time.time() < deadline:
        if (seconds is not None and time.time() - begin >= seconds) or (count is not None and lines(p.out) >= count):
            p.send_signal(signal.SIGKILL)
            p.wait()
            return True
        time.sleep(0.002)
    return False


def killed_run(out, moments, *more):
    kills, leaked = 0, 0
    for moment in moments:
        p = subprocess.Popen(command(out, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        p.out = out
        kills += kill_when(p, moment)
        leaked += not orphans_gone()
    last = run(*command(out, *more))
    leaked += not orphans_gone()
    return kills, leaked, last


def tree(out):
    files = {}
    for folder, _, names in os.walk(f"{work}/{out}"):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, f"{work}/{out}")
            if not relative.startswith("hone.db") and name != "metrics.jsonl":
                files[relative] = open(path, "rb").read()
    return files


def without_times(row):
    return {k: v for k, v in row.items() if not k.startswith("timing_s/") and k != "step_time"}


def metrics(out):
    return [without_times(json.loads(line)) for line in open(f"{work}/{out}/metrics.jsonl")]


def store_rows(out, table, columns):
    with sqlite3.connect(f"{work}/{out}/hone.db") as db:
        return db.execute(f"select {columns}, row from {table} order by {columns}").fetchall()


def same(name, a, b, kills, leaked, last):
    ta, tb = tree(a), tree(b)
    differ = sorted(k for k in ta.keys() | tb.keys() if ta.get(k) != tb.get(k))
    check(f"{name}: checkpoints, settings and final have the same bytes",
          last.returncode == 0 and not differ and any(k.startswith("checkpoint-") for k in ta), differ or last.stderr)
    check(f"{name}: metrics.jsonl has the same rows", metrics(a) == metrics(b) and len(metrics(a)) > 0,
          (metrics(a), metrics(b)))
    ra, rb = ([(s, without_times(json.loads(r))) for s, r in store_rows(x, "metrics", "step")] for x in (a, b))
    check(f"{name}: samples in the store have the same bytes, metrics the same values",
          store_rows(a, "samples", "step, idx") == store_rows(b, "samples", "step, idx") and ra == rb)
    check(f"{name}: nothing half-written and no process is left",
          leaked == 0 and not [k for k in tb if k.endswith(".tmp")], (leaked, list(tb)))
    print(f"# {name}: {kills} kills", flush=True)


def test_adapter():
    p = run(*command("a"))
    m = metrics("a") if p.returncode == 0 else []
    # With no variance anywhere no weight would move, and equal bytes would mean little.
    check("the run that is not stopped: four steps, answers of both kinds, weights that move",
          p.returncode == 0 and [r["step"] for r in m] == [1, 2, 3, 4] and any(0 < r["genuine"] < 1 for r in m)
          and all(r["grad_norm"] > 0 for r in m if r["frac_reward_zero_std"] < 1), (p.stderr, m))
    # About half of the samples are the answers known by heart, so two independent draws agree in
    # about a quarter of the cases. Random numbers shared by the steps would make nearly all agree.
    draws = {}
    for _, _, text in store_rows("a", "samples", "step, idx"):
        row = json.loads(text)
        draws.setdefault((row["task"], row["sample"]), []).append(row["answer"])
    agree = [x == y for v in draws.values() for x, y in zip(v, v[1:])]
    check("steps draw their own random numbers", len(agree) > 8 and sum(agree) < 0.7 * len(agree), agree)
    dropped = sum(r["dropped"] for r in m)
    # an infrastructure fault (a timeout on a crowded machine) is the one thing that a second run
    # need not repeat
    if dropped:
        print(f"# {dropped} answers had no verdict", flush=True)
    same("killed", "a", "b", *killed_run("b", [1, random.uniform(0.05, 0.5), random.uniform(0.5, 6.0), 4]))


def test_weights():
    more = ("--no-use_peft", "--max_steps", "2")
    p = run(*command("full_a", *more))
    check("all weights: the run ends, its final/ opens as a model", p.returncode == 0 and run(hone,
        "eval", "--model", f"{work}/full_a/final", "--tasks", f"{policy}/tasks.jsonl", "--split", "train",
        "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--max_completion_length", "2",
        "--threads", "1", "--verify_threads", "1", "--json").returncode == 0, p.stderr)
    same("all weights, killed", "full_a", "full_b", *killed_run("full_b", [1], *more))


def test_learning():
    """Everything that a step may do beside the plain one, at once: prompts by promise, staged
    groups, dynamic sampling, mini-batches passed over twice, a sequence-level loss, supervised
    updates on the run's own answers, evaluation on dev tasks."""
    rows = [json.loads(line) for line in open(f"{policy}/tasks.jsonl")]
    with open(f"{work}/with_dev.jsonl", "w") as f:   # the places of these structures: tests/task/test_task_set.c
        f.writelines(json.dumps(r) + "\n" for r in rows)
        f.writelines(json.dumps(dict(r, name=f"dev-{r['name']}", structure=s, split="dev", level=2)) + "\n"
                     for r, s in zip(rows, ("chain:a39", "chain:a192")))
    more = ("--tasks", f"{work}/with_dev.jsonl", "--prompt_selection", "promise", "--num_generations_first", "2",
            "--filter_groups", "--max_num_gen_batches", "2", "--steps_per_generation", "2", "--num_iterations", "2",
            "--loss_type", "gspo", "--advantage", "maxrl", "--lr_scheduler_type", "linear", "--replay_updates", "2",
            "--replay_batch_size", "3", "--replay_min", "1", "--replay_pairs", f"{work}/pairs.jsonl",
            "--max_steps", "3", "--eval_steps", "2", "--eval_patience", "1", "--temperature", "1.2",
            "--temperature_code", "0.9", "--min_p", "0.02")
    shutil.copy(f"{policy}/pairs.jsonl", f"{work}/pairs.jsonl")
    p = run(*command("learn_a", *more))
    m = metrics("learn_a") if p.returncode == 0 else []
    # of the last of each step's six updates, of eighteen in all
    rate = [1e-4 * (18 - (6 * k - 1)) / 18 for k in (1, 2, 3)]
    check("the schedule spans all updates of all steps",
          [round(r["learning_rate"], 12) for r in m] == [round(x, 12) for x in rate],
          ([r["learning_rate"] for r in m], rate, p.stderr))
    samples = [(s, json.loads(t)) for s, _, t in store_rows("learn_a", "samples", "step, idx")] if m else []
    genuine = {(r["task"], r["answer"]) for _, r in samples if r["verdict"]["verdict"] == "genuine"}
    check("the buffer holds each genuine answer once, and is learned from", m and m[-1]["replay/unique"]
          == len(genuine) > 0 and m[-1]["replay/examples"] == 6 and m[-1]["replay/loss"] > 0, m)
    sizes = {}
    for s, r in samples:
        sizes.setdefault((s, r["task"]), []).append(r["sample"])
    check("sampler and trainer agree, with a temperature for plan and one for code, and with min_p",
          m and all(r["sampling/trained_logp_difference/max"] < 1e-4 for r in m),
          [r["sampling/trained_logp_difference/max"] for r in m])
    counts = [[v.count(k) for k in range(4)] for v in sizes.values()]   # a task may come in two rounds
    check("groups have their first two answers, or all four, numbered through",
          counts and all(c[0] == c[1] >= c[2] == c[3] for c in counts) and len({c[2] > 0 for c in counts}) == 2, sizes)
    check("dev tasks are answered every second step, and never trained on", [("eval/genuine" in r) for r in m]
          == [False, True, False] and m[1]["eval/tasks"] == 2 and not any(r["split"] == "dev" for _, r in samples), m)
    same("learning", "learn_a", "learn_b", *killed_run("learn_b", [1, random.uniform(0.3, 5.0), 2], *more))
    rows = open(f"{work}/pairs.jsonl").read().splitlines(True)
    open(f"{work}/pairs.jsonl", "w").writelines(rows[1:])
    p = run(*command("learn_a", *more), "--max_seconds", "1000", expect=1)
    check("a file of pairs that changed under its name is refused", p.returncode == 1 and "replay_pairs" in p.stderr,
          p.stderr)
    open(f"{work}/pairs.jsonl", "w").writelines(rows)
    text = open(f"{work}/with_dev.jsonl").read().splitlines(True)
    open(f"{work}/with_dev.jsonl", "w").writelines(line for line in text if "dev-twice" not in line)
    p = run(*command("learn_a", *more), "--max_seconds", "1000", expect=1)
    check("dev tasks that changed under their file's name are refused",
          p.returncode == 1 and "dev (hash of the rendered dev tasks)" in p.stderr, p.stderr)


def test_turns():
    """Episodes of two turns: who gets a second one, and that a run which
    was killed repeats them."""
    open(f"{work}/turn.txt", "w").write("{{feedback}}\n### kernel\n")
    more = ("--num_turns", "2", "--turn_template", f"{work}/turn.txt", "--max_feedback_length", "300",
            "--max_tokens", "2048", "--temperature", "1.2", "--max_steps", "2", "--lora_dropout", "0")
    p = run(*command("turn_a", *more))
    m = metrics("turn_a") if p.returncode == 0 else []
    rows = [(s, json.loads(t)) for s, _, t in store_rows("turn_a", "samples", "step, idx")] if m else []
    later = [(s, r) for s, r in rows if r["turn"] == 1]
    failed = [r for _, r in rows if r["turn"] == 0 and r["verdict"]["verdict"] != "genuine"]
    check("turns: every first answer that fails has a second one behind what the verdict said, and no other has",
          m and 0 < len(later) == len(failed) < len(rows) / 2 and all("Verdict: " in r["feedback"] for _, r in later)
          and [r["turns/2/answers"] for r in m] == [sum(s == k for s, _ in later) for k in (1, 2)], (p.stderr, m))
    check("turns: sampler and trainer agree on later answers too",
          m and all(r["sampling/trained_logp_difference/max"] < 1e-4 for r in m),
          [r["sampling/trained_logp_difference/max"] for r in m])
    same("turns, killed", "turn_a", "turn_b", *killed_run("turn_b", [1], *more))
    open(f"{work}/turn.txt", "w").write("{{feedback}}\n### another kernel\n")
    p = run(*command("turn_a", *more), "--max_steps", "3", expect=1)
    check("turns: a template that changed under its name is refused",
          p.returncode == 1 and "turns (hash of the text of turn_template)" in p.stderr, p.stderr)
    p = run(*command("turn_c", *more, "--filter_groups"), expect=2)
    check("turns and dynamic sampling exclude each other", p.returncode == 2 and "filter_groups" in p.stderr, p.stderr)


SLOW = """import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def copy_kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(p + i, mask=i < n), mask=i < n)

@triton.jit
def kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(p + i, mask=i < n)
    tl.store(o + i, EXPRESSION, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        t, o = torch.empty_like(x), torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 16),)](x, t, x.numel(), B=16)
        kernel[(triton.cdiv(x.numel(), 16),)](t, o, x.numel(), B=16)
        return o
"""


def midend_policy():
    """Continues the policy on prompts that show a genuine kernel which copies first.

    Leaves the rows (task, kernel, its verdict, the policy's answer) in midend.jsonl."""
    open(f"{work}/midend.txt", "w").write("{{kernel}}\n### kernel\n")
    kernels = {name: SLOW.replace("EXPRESSION", what)
               for name, what in (("relu", "tl.maximum(x, 0.0)"), ("twice", "x * 2.0"), ("square", "x * x"))}
    with open(f"{work}/slow.jsonl", "w") as f:
        f.writelines(json.dumps(dict(task=k, sample=0, answer=f"```python\n{v}```\n")) + "\n"
                     for k, v in kernels.items())
    run(hone, "eval", "--policy_answers", f"{work}/slow.jsonl", "--tasks", f"{policy}/tasks.jsonl", "--split", "train",
        "--prompt_template", f"{policy}/template.txt", "--verify_threads", "1", "--out", f"{work}/slow_rows.jsonl",
        expect=0)
    verdicts = {r["task"]: r["verdict"] for r in map(json.loads, open(f"{work}/slow_rows.jsonl"))}
    with open(f"{work}/midend.jsonl", "w") as f:
        for row in map(json.loads, open(f"{policy}/pairs.jsonl")):
            kernel = kernels[row["name"]]
            f.write(json.dumps(dict(row, kernel=kernel, profile=verdicts[row["name"]],
                prompt=kernel.rstrip() + "\n### kernel\n\n")) + "\n")
    return run(hone, "sft", "--no-use_peft", "--model", f"{policy}/sft/final", "--data", f"{work}/midend.jsonl",
               "--output_dir", f"{work}/mid_sft", "--max_tokens", "2048", "--learning_rate", "3e-3",
               "--lr_scheduler_type", "constant", "--num_train_epochs", "0", "--max_steps", "50", "--save_steps", "0",
               "--seed", "1", "--threads", "1")


def test_midend():
    """The policy's answers are cheaper than the kernels that the prompts show, and paid by how
    much. With a penalty for the distance to the reference model, which is the start and not
    what a checkpoint holds."""
    p = midend_policy()
    more = ("--stage", "midend", "--model", f"{work}/mid_sft/final", "--tasks", f"{work}/midend.jsonl",
            "--prompt_template", f"{work}/midend.txt", "--reward", "uniform", "--max_tokens", "2048",
            "--max_steps", "3", "--beta", "0.1", "--loss_type", "grpo")
    p = run(*command("mid_a", *more)) if p.returncode == 0 else p
    m = metrics("mid_a") if p.returncode == 0 else []
    rows = [json.loads(text) for _, _, text in store_rows("mid_a", "samples", "step, idx")] if m else []
    paid = [r["reward_code"] for r in rows if r["verdict"]["verdict"] == "genuine"]
    check("mid-end: genuine answers are paid for being cheaper than the kernel shown",
          len(m) == 3 and paid and all(r > 2 for r in paid) and len(paid) < len(rows),
          (p.stderr[-600:], paid, [r["verdict"]["reason"] for r in rows]))
    check("beta > 0: the distance is 0 at the start and grows",
          len(m) == 3 and m[0]["kl"] < 1e-6 and m[-1]["kl"] > m[0]["kl"], (p.stderr, [r.get("kl") for r in m]))
    if m:
        same("mid-end, killed", "mid_a", "mid_b", *killed_run("mid_b", [1, random.uniform(0.3, 4.0), 2], *more))


def test_pipeline():
    """A frontend and then a mid-end over what it wrote, by one model with an adapter each: killed
    in either part, it ends with the adapters of the run that was not."""
    open(f"{work}/pipe.yaml", "w").write(f"prompt_template: {work}/midend.txt\nreward: midend\n")
    more = ("--pipeline", f"{work}/pipe.yaml", "--pipeline_kernels", "2", "--max_steps", "2")
    p = run(*command("pipe_a", *more))
    given = [json.loads(line) for line in open(f"{work}/pipe_a/midend.jsonl")] if p.returncode == 0 else []
    adapters = {part: open(f"{work}/pipe_a/{part}/final/adapter_model.safetensors", "rb").read()
                for part in ("frontend", "midend") if given}
    check("a model's own genuine kernels are what its mid-end is asked about, and each part has its adapter",
          given and all("tl.store" in r["kernel"] and r["profile"]["verdict"] == "genuine" for r in given)
          and adapters["frontend"] != adapters["midend"] and lines("pipe_a/midend") == 2, (p.stderr[-600:], given))
    ended = 0
    for part in ("frontend", "midend"):
        q = subprocess.Popen(command("pipe_b", *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        q.out = f"pipe_b/{part}"
        ended += not kill_when(q, 1)
        orphans_gone()
    last = run(*command("pipe_b", *more))
    a, b = tree("pipe_a"), tree("pipe_b")
    # Settings name their run's folder.
    differ = sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k) and not k.endswith("settings.json"))
    check("a pipeline that was killed in either part ends with the same bytes",
          last.returncode == 0 and not ended and not differ and "midend/final/adapter_model.safetensors" in b,
          (ended, differ, last.stderr[-600:]))


def test_refusals():
    for option, value, recorded in (("learning_rate", "0.001", "0.0001"),
                                    ("reward", "uniform", "frontend"), ("num_correct_trials", "2", "1"),
                                    ("model", f"{policy}/init", f"{policy}/sft/final")):
        p = run(*command("a", f"--{option}", value), expect=1)
        check(f"another {option} is refused with both values and a way out", p.returncode == 1 and option in p.stderr
              and value in p.stderr and recorded in p.stderr and "--output_dir" in p.stderr, p.stderr)
    # Contents of files count, not their names.
    before = tree("a")
    text = open(f"{work}/tasks.jsonl").read()
    open(f"{work}/tasks.jsonl", "w").write(text.replace("x * 2.0", "x * 3.0"))
    p = run(*command("a"), "--max_steps", "5", expect=1)
    check("a task file that changed under its name is refused", p.returncode == 1 and "prompts" in p.stderr, p.stderr)
    open(f"{work}/tasks.jsonl", "w").write(text)
    p = run(*command("a", "--store", f"{work}/elsewhere.db"), expect=1)
    check("another store, without the run's metrics, is refused", p.returncode == 1 and "--store" in p.stderr, p.stderr)
    with sqlite3.connect(f"{work}/a/hone.db") as db:
        kept = db.execute("select row, step, idx from samples order by step, idx limit 1").fetchone()
        db.execute("update samples set row = '{' where step = ? and idx = ?", kept[1:])
    p = run(*command("a", "--max_steps", "5"), expect=1)
    check("a sample that cannot be read ends the start: what was learned of its prompt would be lost",
          p.returncode == 1 and "stored row" in p.stderr, p.stderr)
    with sqlite3.connect(f"{work}/a/hone.db") as db:
        db.execute("update samples set row = ? where step = ? and idx = ?", kept)
    check("a refusal changes nothing", tree("a") == before and lines("a") == 4)
    # What may change between two starts, and a folder that is another command's.
    settings = json.load(open(f"{work}/a/settings.json"))
    del settings["chat_date"]   # as if the run were older than this option
    json.dump(settings, open(f"{work}/a/settings.json", "w"))
    p = run(*command("a", "--max_steps", "5", "--save_steps", "2", "--threads", "2", "--verify_threads", "2",
                     "--max_seconds", "1000"))
    check("steps, seconds, saves and threads may change, an option that is not set may be new",
          p.returncode == 0 and len(metrics("a")) == 5, p.stderr)
    os.makedirs(f"{work}/sft", exist_ok=True)
    os.makedirs(f"{work}/sft/checkpoint-7", exist_ok=True)
    p = run(*command("sft"), expect=1)
    check("a folder with checkpoints of something else is refused",
          p.returncode == 1 and "settings.json" in p.stderr and not os.path.exists(f"{work}/sft/hone.db"), p.stderr)


def main():
    global policy
    ctypes.CDLL(None).prctl(36, 1)   # PR_SET_CHILD_SUBREAPER
    policy = tiny_policy()
    if policy:
        shutil.copy(f"{policy}/tasks.jsonl", f"{work}/tasks.jsonl")   # a test changes it under its name
        test_adapter()
        warm.extend(warm_workers())
        test_weights()
        test_learning()
        test_turns()
        test_midend()
        test_pipeline()
        test_refusals()
    done()


main()
