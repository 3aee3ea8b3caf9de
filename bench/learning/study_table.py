"""The table of a study: greedy results of every arm and seed (of several answers to a task
the share that is genuine), differences between arms with 95 % intervals by a paired
bootstrap over structures.

    study_table.py DIR/STUDY [SPLIT]

Reads start-SPLIT.jsonl and ARM-SEED/SPLIT.jsonl as `hone eval --out` writes them. A seed's interval
draws structures; the interval of the mean over seeds draws seeds, and structures once for all of
them: the seeds are asked the same ones, so that a structure which one arm is good at is no more
certain for having been asked under three seeds. Answers without a verdict (infra) count on neither
side. Of s1 the shares of verdicts by reason stand below, over the steps of the runs; of s4 the
regret: how much longer the answer's predicted time is than that of the best choice of the pairs'
file, also between arms over the tasks that both answer, and how the speed of answers to the
training prompts changed."""
import collections, glob, json, os, re, sys

import numpy as np

DRAWS = 4000


def answers(path):
    """task -> (structure, share of genuine answers, the predicted time of the last)"""
    out, judged = {}, collections.defaultdict(list)
    for line in open(path):
        r = json.loads(line)
        v = r["verdict"]
        if v["verdict"] != "infra":
            judged[r["task"]].append(v["verdict"] == "genuine")
            out[r["task"]] = (r["structure"] or r["task"], float(np.mean(judged[r["task"]])), v.get("cost_s"))
    return out


def by_structure(a, b):
    """structure -> the sum of differences and the number of tasks that both sides have"""
    sums = collections.defaultdict(lambda: [0.0, 0])
    for task in a.keys() & b.keys():
        s = sums[a[task][0]]
        s[0] += a[task][1] - b[task][1]
        s[1] += 1
    return sums


def draw(rng, seeds):
    """Means of DRAWS draws of structures, the same ones for every seed: (seeds, DRAWS)"""
    structures = sorted(set().union(*seeds))
    sums = np.array([[seed.get(s, (0.0, 0)) for s in structures] for seed in seeds])
    drawn = rng.integers(len(structures), size=(DRAWS, len(structures)))
    d = sums[:, drawn].sum(axis=2)
    return d[..., 0] / np.maximum(d[..., 1], 1)


def interval(x):
    return "[%+.3f, %+.3f]" % tuple(np.percentile(x, (2.5, 97.5)))


def difference(rng, arms, a, b):
    """One line: every seed that both arms have, and their mean."""
    seeds = sorted(arms[a].keys() & arms[b].keys()) if b != "start" else sorted(arms[a])
    pairs = [by_structure(arms[a][s], arms[b][s] if b != "start" else arms["start"][0]) for s in seeds]
    if not pairs:
        return
    each = draw(rng, pairs)
    means = [np.sum(list(p.values()), axis=0) for p in pairs]
    means = [total / count for total, count in means]
    print(f"{a} - {b}: " + ", ".join(f"seed {s} {m:+.3f} {interval(e)}" for s, m, e in zip(seeds, means, each)))
    if len(seeds) > 1:
        chosen = rng.integers(len(seeds), size=(len(seeds), DRAWS))   # a seed is drawn anew for each place
        print(f"    mean of {len(seeds)} seeds {np.mean(means):+.3f} "
              f"{interval(each[chosen, np.arange(DRAWS)].mean(axis=0))}")


def hacks(folder):
    """Shares of verdicts by class and reason in ten parts of a run."""
    import sqlite3
    with sqlite3.connect(f"{folder}/run/hone.db") as db:
        rows = [(step, json.loads(text)["verdict"])
                for step, text in db.execute("select step, row from samples order by step, idx")]
    if not rows:
        return
    last = rows[-1][0]
    parts = [collections.Counter() for _ in range(10)]
    for step, v in rows:
        name = (v["verdict"] if v["verdict"] in ("genuine", "wrong", "invalid", "infra")
                else f"{v['verdict']}/{v['reason']}")
        parts[min(9, (step - 1) * 10 // last)][name] += 1
    print(f"{os.path.basename(folder)}: {last} steps, share of answers in each tenth")
    for name in sorted({n for p in parts for n in p}):
        print(f"    {name:32s}" + "".join(f"{100 * p[name] / max(1, sum(p.values())):6.1f}" for p in parts))


def spread(rng, folder):
    """Of s1's arms the shares of cheats (cheat, partial), of what was paid by the stock check
    without being genuine, and of genuine answers, in the first and the last third of a run; and the
    change of cheats, with an interval that draws seeds."""
    import sqlite3
    changes = collections.defaultdict(list)
    for path in sorted(glob.glob(f"{folder}/*-[0-9]*/run/hone.db")):
        name = path.split("/")[-3]
        with sqlite3.connect(path) as db:
            rows = [json.loads(text)["verdict"]
                    for _, text in db.execute("select step, row from samples order by step, idx")]
        third = len(rows) // 3
        if not third:
            continue
        share = lambda of, part: np.mean([bool(of(v)) for v in part])
        passes = lambda v: (v.get("kernelbench") or {}).get("correctness")
        kinds = {"cheat": lambda v: v["verdict"] in ("cheat", "partial"),
                 "genuine": lambda v: v["verdict"] == "genuine",
                 "stock, not genuine": lambda v: passes(v) and v["verdict"] != "genuine"}
        ends = {k: (share(of, rows[:third]), share(of, rows[-third:])) for k, of in kinds.items()}
        print(f"{name}: {len(rows)} answers; first and last third: "
              + ", ".join(f"{k} {a:.3f} {b:.3f}" for k, (a, b) in ends.items()))
        changes[name.rsplit("-", 1)[0]].append(ends["cheat"][1] - ends["cheat"][0])
    for arm, c in changes.items():
        drawn = rng.choice(c, size=(DRAWS, len(c))).mean(axis=1)
        print(f"{arm}: cheats change by {np.mean(c):+.3f} {interval(drawn)} over {len(c)} seeds")


def best_times(pairs):
    """task -> the shortest predicted time of its choices in the pairs' file"""
    best = {}
    for line in open(pairs):
        r = json.loads(line)
        if r.get("cost_s"):
            task = re.sub(r"-c\d+$", "", r["name"])
            best[task] = min(best.get(task, float("inf")), r["cost_s"])
    return best


def regrets(best, test):
    """task -> (structure, log of the answer's time over the best choice's), of genuine answers"""
    return {name: (t[0], np.log(t[2] / best[name])) for name, t in test.items() if t[1] and t[2] and name in best}


def regret_table(rng, folder, arms, names):
    """Of each arm and seed over its own genuine answers, and between arms over the tasks that both
    answer, so that none gains by what the other cannot do."""
    best = best_times(f"{folder}/pairs.jsonl")
    by_arm = {name: {seed: regrets(best, a) for seed, a in arms[name].items()} for name in arms}
    for name in [*names, *(["start"] if "start" in arms else [])]:
        for seed, found in sorted(by_arm[name].items()):
            x = np.array([r for _, r in found.values()])
            if x.size:
                print(f"{name}-{seed}: {x.size} genuine answers, {np.exp(x.mean()):.4f} times the best choice's time, "
                      f"{np.mean(x < 0.02):.3f} are as fast")
    print("log of the time over the best choice's, of tasks that both answer:")
    for i, a in enumerate(names):
        for b in (["start"] if "start" in arms else []) + names[:i]:
            difference(rng, by_arm, a, b)


def gains(folder, control="c", steps=10):
    """What training does to the speed of its own prompts' answers: for each arm and seed the mean
    predicted speedup (metrics.jsonl) of the last steps less that of the first, and less the
    control's change under the same seed."""
    change = collections.defaultdict(dict)
    for path in sorted(glob.glob(f"{folder}/*-[0-9]*/run/metrics.jsonl")):
        arm, seed = path.split("/")[-3].rsplit("-", 1)
        rows = [[r["speedup"], r["genuine"]] for r in map(json.loads, open(path))]
        first, last = np.mean(rows[:steps], axis=0), np.mean(rows[-steps:], axis=0)
        change[arm][seed] = last[0] - first[0]
        print(f"{arm}-{seed}: {len(rows)} steps, speedup {first[0]:.3f} to {last[0]:.3f}, "
              f"genuine {first[1]:.3f} to {last[1]:.3f}")
    for arm in sorted(change.keys() - {control}):
        seeds = sorted(change[arm].keys() & change[control].keys())
        more = [change[arm][s] - change[control][s] for s in seeds]
        print(f"{arm} - {control}: speedup changes by {np.mean(more):+.3f} more, of seeds {', '.join(seeds)} "
              + ", ".join(f"{m:+.3f}" for m in more))


def main():
    folder, split = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "test"
    study, rng = os.path.basename(folder.rstrip("/")), np.random.default_rng(1)
    arms = collections.defaultdict(dict)
    for path in glob.glob(f"{folder}/*/{split}.jsonl"):
        name, seed = os.path.basename(os.path.dirname(path)).rsplit("-", 1)
        arms[name][int(seed)] = answers(path)
    if os.path.exists(f"{folder}/start-{split}.jsonl"):
        arms["start"][0] = answers(f"{folder}/start-{split}.jsonl")
    for name in sorted(arms):
        for seed, a in sorted(arms[name].items()):
            print(f"{name:10s} seed {seed}  genuine {np.mean([x[1] for x in a.values()]):.3f} of {len(a)} tasks, "
                  f"{len({x[0] for x in a.values()})} structures")
    names = sorted(n for n in arms if n != "start")
    for i, a in enumerate(names):
        if "start" in arms:
            difference(rng, arms, a, "start")
        for b in names[:i]:
            difference(rng, arms, a, b)
    for path in sorted(glob.glob(f"{folder}/*-[0-9]*/run/hone.db")) if study == "s1" else []:
        hacks(path[:-len("/run/hone.db")])
    if study == "s1":
        spread(rng, folder)
    if study == "s4":
        regret_table(rng, folder, arms, names)
        gains(folder)


if __name__ == "__main__":
    main()
