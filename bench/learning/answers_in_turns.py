"""Steps of reinforcement learning by two builds of hone beside each other: answers a second without
verdicts, and where their seconds go.

usage: build/venv/bin/python bench/learning/answers_in_turns.py OLD NEW --model DIR [--tasks FILE]
           [--rounds 5] [--steps 4] [--threads 2] [--seed 1] [--set NAME VALUE]...
           [--recipes OLD.yaml NEW.yaml] [--folder DIR]

Both programs run `hone rl` from one model at rate 0, so that a program's answers are the same in
every round, with the settings below, which both know, or each with a recipe of its own; --set adds
an option or changes one. The first run
of each fills a store with verdicts (in DIR, where a later call finds it); the rounds that count
find all of them there. The programs take
turns, and every second round the other one comes first. A run's first step warms up and does not
count. Printed are the medians over rounds: seconds on the clock, and processor time of the program
itself (its children, which grade, are not in it), of a step's generation with the look-up of its
verdicts, and of its update; at the end the ratios NEW / OLD of answers a second.
"""
import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

SETTINGS = {
    "prompt_template": "recipes/prompts/small-frontend.txt", "chat_template": "plain", "loss_type": "dapo",
    "num_generations": 4, "temperature": 1.0, "max_completion_length": 400,
    "max_tokens": 4096, "num_correct_trials": 4, "use_peft": "false",
}
ANSWERS = 64      # of a step
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """Of the process so far, without its children."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def train_rows(path, out):
    """The train tasks of a file; how the other splits are called has changed."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as f, open(out, "w") as g:
        g.writelines(line for line in f if json.loads(line)["split"] == "train")


class Program:
    """One build, and the store of its verdicts."""

    def __init__(self, path, folder, name, options):
        self.path, self.folder, self.name, self.options = path, folder, name, options
        self.rounds = []

    def run(self):
        """The steps of one run but the first: rows of its metrics, and processor
        seconds of all of them."""
        out = os.path.join(self.folder, self.name)
        command = [self.path, "rl", *self.options, "--output_dir", out, "--store", out + ".db"]
        marks, rows = [], []
        with open(out + ".log", "w") as log:
            p = subprocess.Popen(command, stdout=log, stderr=log)
            while True:
                ended = p.poll() is not None
                lines = []
                if os.path.exists(f"{out}/metrics.jsonl"):
                    with open(f"{out}/metrics.jsonl") as f:
                        lines = [line for line in f if line.endswith("\n")]
                if len(lines) > len(rows) and not ended:
                    rows = [json.loads(line) for line in lines]
                    marks += [processor_seconds(p.pid)] * (len(rows) - len(marks))
                if ended:
                    break
                time.sleep(0.002)
        rows = [json.loads(line) for line in lines]
        if p.returncode:
            raise SystemExit(f"answers_in_turns: {' '.join(command)} ended with status {p.returncode}; see {out}.log")
        shutil.rmtree(out)
        return rows, marks

    def measure(self):
        rows, marks = self.run()
        n = len(rows) - 1
        generate = sum(r["timing_s/generate_and_verify"] for r in rows[1:]) / n
        update = sum(r["timing_s/update"] for r in rows[1:]) / n
        # the last step's mark may be missed where the process ends at once
        processor = (marks[-1] - marks[0]) / (len(marks) - 1)
        self.rounds.append((generate, update, ANSWERS / (generate + update), processor))
        lengths = [[r[f"completions/{of}_length"] for of in ("mean", "min", "max")] for r in rows]
        return lengths, self.rounds[-1]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("old")
    a.add_argument("new")
    a.add_argument("--model", required=True)
    a.add_argument("--tasks", default="recipes/demo/tasks.jsonl.gz")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--steps", type=int, default=4)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--recipes", nargs=2)
    a.add_argument("--folder")
    a.add_argument("--set", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    o = a.parse_args()
    folder = o.folder or tempfile.mkdtemp(prefix="answers-")
    os.makedirs(folder, exist_ok=True)
    tasks = os.path.join(folder, "tasks.jsonl")
    train_rows(o.tasks, tasks)
    settings = dict({} if o.recipes else SETTINGS, model=o.model, tasks=tasks, seed=o.seed, threads=o.threads,
                    verify_threads=o.threads, max_steps=o.steps + 1, learning_rate=0, save_steps=0,
                    generation_batch_size=ANSWERS, **dict(o.set))
    programs = []
    for k, (name, path) in enumerate((("old", o.old), ("new", o.new))):
        recipe = os.path.join(folder, f"{name}.yaml")
        with open(recipe, "w") as f:
            f.writelines(f"{key}: {value}\n" for key, value in settings.items())
        recipes = [o.recipes[k], recipe] if o.recipes else [recipe]
        programs.append(Program(path, folder, name, [x for r in recipes for x in ("--recipe", r)]))
    for p in programs:
        if not os.path.exists(os.path.join(folder, p.name + ".db")):
            p.run()
    for i in range(o.rounds):
        found = {}
        for k in (0, 1) if i % 2 == 0 else (1, 0):
            found[k] = programs[k].measure()
        print(f"round {i + 1}: " + "; ".join(
            f"{p.name} {g:.3f} + {u:.3f} s, {r:.1f} answers/s, {c:.3f} s of processor time"
            for p, (_, (g, u, r, c)) in ((programs[k], found[k]) for k in (0, 1)))
            + ("" if found[0][0] == found[1][0] else "  (other answers)"), flush=True)
    if not o.folder:
        shutil.rmtree(folder)
    middle = [[statistics.median(column) for column in zip(*p.rounds)] for p in programs]
    print(f"{'a step, medians':<34} {'old':>9} {'new':>9}")
    for name, column, unit, factor in (("generation, s", 0, ".3f", -1), ("update, s", 1, ".3f", -1),
                                       ("processor time, s", 3, ".3f", -1), ("answers a second", 2, ".1f", 1)):
        old, new = middle[0][column], middle[1][column]
        print(f"{name:<34} {old:>9{unit}} {new:>9{unit}}   {(new / old) ** factor:.2f}x")
    each = sorted(b[2] / a[2] for a, b in zip(programs[0].rounds, programs[1].rounds))
    print(f"answers a second, round by round: {each[0]:.2f}x to {each[-1]:.2f}x, middle {statistics.median(each):.2f}x")


if __name__ == "__main__":
    main()
