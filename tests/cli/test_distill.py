"""hone distill: genuine answers of runs as pairs, each once, of training structures alone; then the
fit.  timeout: 900"""
import fcntl, json, os, sqlite3, sys

sys.path.append("tests")
from command import check, done, hone, run, tiny_policy, warm_workers, work_folder

work = work_folder("distill")


def distill(out, *more, expect=0):
    return run(hone, "distill", "--model", f"{policy}/init", "--tasks", f"{work}/tasks.jsonl",
               "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--no-use_peft",
               "--max_tokens", "1024", "--threads", "1", "--num_train_epochs", "0", "--max_steps", "2",
               "--save_steps", "0", "--output_dir", f"{work}/{out}", *more, expect=expect)


def pairs(out):
    return [json.loads(line) for line in open(f"{work}/{out}/distilled.jsonl")]


def make_runs():
    """Two runs of one step each; then a sample of a dev task and one of a task that is not there
    are written into the second store."""
    rows = [json.loads(line) for line in open(f"{policy}/tasks.jsonl")]
    with open(f"{work}/tasks.jsonl", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
        f.write(json.dumps(dict(rows[0], name="held", structure="chain:a39", split="dev")) + "\n")
    # Rate 0: both runs sample from the same policy, with other seeds.
    for seed in ("1", "2"):
        p = run(hone, "rl", "--model", f"{policy}/sft/final", "--tasks", f"{policy}/tasks.jsonl",
                "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--num_generations", "4",
                "--generation_batch_size", "8", "--max_completion_length", "170", "--max_tokens", "1024",
                "--max_steps", "1", "--num_correct_trials", "1", "--learning_rate", "0", "--seed", seed,
                "--threads", "1", "--verify_threads", "1", "--output_dir", f"{work}/run{seed}")
        assert p.returncode == 0, p.stderr
    db = sqlite3.connect(f"{work}/run2/hone.db")
    text = next(t for t, in db.execute("select row from samples") if json.loads(t)["verdict"]["verdict"] == "genuine")
    for i, name in enumerate(("held", "nobody")):
        db.execute("insert into samples (run, step, idx, row) values (1, 1, ?, ?)",
                   (100 + i, json.dumps(dict(json.loads(text), task=name))))
    db.commit()
    # What a fit has to find: all genuine answers but the two that were put there.
    genuine = set()
    for seed in ("1", "2"):
        with sqlite3.connect(f"{work}/run{seed}/hone.db") as db:
            for t, in db.execute("select row from samples"):
                r = json.loads(t)
                if r["verdict"]["verdict"] == "genuine" and r["task"] not in ("held", "nobody"):
                    genuine.add((r["task"], r["answer"]))
    return rows, genuine


def main():
    global policy
    policy = tiny_policy()
    warm_workers()
    if not policy:
        return done()
    rows, genuine = make_runs()
    # From both stores, one named by its folder and one by its file.
    p = distill("both", "--from", f"{work}/run1", "--from", f"{work}/run2/hone.db")
    got = pairs("both") if p.returncode == 0 else []
    check("each genuine answer of both runs once, none of dev tasks or of tasks that are not there",
          genuine and len(got) == len(genuine) and {(r["task"], r["completion"]) for r in got} == genuine
          and "2 to other tasks" in p.stderr, p.stderr)
    form = open(f"{policy}/template.txt").read()
    source = {r["name"]: r["source"] for r in rows}
    check("prompts are what the policy was asked",
          all(r["prompt"] == form.replace("{{task}}", source[r["task"]].rstrip()) + "\n" for r in got), got[:1])
    check("the fit ends in final/",
          p.stdout.strip() == f"{work}/both/final" and os.path.exists(f"{work}/both/final/model.safetensors"), p.stdout)
    # More beside: pairs, of which dev rows are watched; fewer of each structure; and wrong use.
    first = open(f"{work}/both/distilled.jsonl", "rb").read()
    with open(f"{work}/pairs.jsonl", "w") as f:
        f.write(json.dumps(dict(prompt="p\n", completion="c", split="train")) + "\n"
                + json.dumps(dict(prompt="q\n", completion="d", split="dev")) + "\n")
    p = distill("with", "--from", f"{work}/run1", "--from", f"{work}/run2", "--pairs", f"{work}/pairs.jsonl",
                "--eval_steps", "1")
    check("pairs are learned beside, their dev rows watched",
          p.returncode == 0 and open(f"{work}/with/distilled.jsonl", "rb").read().startswith(first)
          and len(pairs("with")) == len(genuine) + 2 and '"eval_loss"' in open(f"{work}/with/metrics.jsonl").read(),
          p.stderr)
    p = distill("few", "--from", f"{work}/run1", "--from", f"{work}/run2", "--per_structure", "1")
    check("--per_structure keeps so many of each",
          p.returncode == 0 and len(pairs("few")) == len({t for t, _ in genuine}), p.stderr)
    # A folder that another process holds gets no file of ours.
    os.makedirs(f"{work}/held")
    holder = os.open(f"{work}/held", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    p = distill("held", "--from", f"{work}/run1", "--from", f"{work}/run2", expect=1)
    check("a folder that another writes into is refused by name",
          p.returncode == 1 and "held: another hone is writing" in p.stderr
          and not os.listdir(f"{work}/held"), p.stderr)
    os.close(holder)
    p = distill("none", "--from", f"{work}/nowhere", expect=1)
    check("a store that is not there is named, and not made",
          p.returncode == 1 and "nowhere" in p.stderr and not os.path.exists(f"{work}/nowhere"), p.stderr)
    p = distill("none", "--from", f"{work}/run1", "--data", "x", expect=2)
    check("--data is wrong usage here", p.returncode == 2 and "--pairs" in p.stderr, p.stderr)
    done()


main()
