"""The table of the ladder's study: of every seed and set, over structures, the share that the
greedy answer solves, that a sample solves and that eight samples solve, with 95 % intervals by a
bootstrap over structures; of the mean over seeds, seeds are drawn too. Below it the hand-written
tasks, by the seeds in which eight samples hold a genuine answer.

    ladder_table.py DIR

Answers without a verdict (infra) count on neither side."""
import collections, glob, json, re, sys

import numpy as np

DRAWS = 4000
SETS = ("structures", "exp_neg_abs", "softsign", "family", "hand")
BAR_TASKS, BAR_SEEDS = 3, 3


def rows(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def verdicts(path):
    """task -> whether each of its answers is genuine"""
    out = collections.defaultdict(list)
    for r in rows(path):
        if r["verdict"]["verdict"] != "infra":
            out[r["task"]].append(r["verdict"]["verdict"] == "genuine")
    return out


def figures(greedy, samples, tasks):
    """Of every structure of a set: greedy, mean of the samples, any of them."""
    return np.array([(greedy[t][0], np.mean(samples[t]), any(samples[t])) for t in tasks if greedy[t] and samples[t]],
                    dtype=float).reshape(-1, 3)


def cells(mean, drawn):
    low, high = np.percentile(drawn, (2.5, 97.5), axis=0)
    return " | ".join(f"{m:.3f} [{a:.3f}, {b:.3f}]" for m, a, b in zip(mean, low, high))


def main(folder):
    rng = np.random.default_rng(1)
    set_of = {t["name"]: t["set"] for name in ("tasks", "hand") for t in rows(f"{folder}/{name}.jsonl")}
    seeds = sorted(int(m[1]) for p in glob.glob(f"{folder}/judged/hand-samples-*.jsonl")
                   if (m := re.search(r"-(\d+)\.jsonl$", p)))
    found = {}   # (seed, kind) -> task -> verdicts
    for seed in seeds:
        for kind in ("greedy", "samples"):
            found[seed, kind] = collections.defaultdict(list)
            for name in ("tasks", "hand"):
                for path in glob.glob(f"{folder}/judged/{name}-{kind}-{seed}.jsonl"):
                    found[seed, kind].update(verdicts(path))
    print("| set | seed | tasks | greedy pass@1 | pass@1 | pass@8 |\n|---|---|---|---|---|---|")
    for name in SETS:
        tasks = [t for t, s in set_of.items() if s == name]
        drawn, means = [], []
        for seed in seeds:
            x = figures(found[seed, "greedy"], found[seed, "samples"], tasks)
            if not len(x):
                continue
            drawn.append(x[rng.integers(len(x), size=(DRAWS, len(x)))].mean(axis=1))
            means.append(x.mean(axis=0))
            print(f"| {name} | {seed} | {len(x)} | {cells(means[-1], drawn[-1])} |")
        if len(means) > 1:
            chosen = rng.integers(len(means), size=(len(means), DRAWS))
            both = np.array(drawn)[chosen, np.arange(DRAWS)].mean(axis=0)
            print(f"| {name} | mean | | {cells(np.mean(means, axis=0), both)} |")
    print("\n| hand-written task | seeds that pass at k = 8 | genuine of 8, by seed | greedy |\n|---|---|---|---|")
    passed = collections.Counter()
    for task in (t for t, s in set_of.items() if s == "hand"):
        counts = [sum(found[s, "samples"][task]) for s in seeds]
        greedy = [s for s in seeds if any(found[s, "greedy"][task])]
        passed.update(s for s, n in zip(seeds, counts) if n)
        print(f"| {task} | {sum(n > 0 for n in counts)} of {len(seeds)} | {counts} | {greedy or ''} |")
    reached = [s for s in seeds if passed[s] >= BAR_TASKS]
    print("\npassed at k = 8: " + ", ".join(f"seed {s} {passed[s]}" for s in seeds))
    print(f"bar ({BAR_TASKS} tasks in {BAR_SEEDS} seeds): {len(reached)} of {len(seeds)} seeds have as many: "
          + ("reached" if len(reached) >= BAR_SEEDS else "not reached"))


main(sys.argv[1])
