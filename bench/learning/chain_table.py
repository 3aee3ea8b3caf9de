"""The table of study s5: what a chain is worth beside a single agent.

    chain_table.py DIR/SHARE SAMPLES

Reads ARM-SEED/chain-PART.jsonl and ARM-SEED/single-PART.jsonl as `hone eval --out` writes them. A
task counts with the speedup of its cheapest genuine answer over PyTorch's operators fused, 0 where
none is genuine: of a chain over all of its answers; of a single agent over as many as the chain it
stands beside had for the task (equal verdicts), and over as many as reach the tokens that this
chain wrote (equal tokens; the answer that crosses the line counts). Intervals are those of
study_table.py. Answers without a verdict (infra) count on no side. Beside each arm stands what its
training took."""
import collections, glob, json, os, sqlite3, sys

import numpy as np

from study_table import difference


def answers(folder, name):
    """task -> (structure, its answers in order: (tokens, speedup or 0, launches))"""
    out = {}
    for path in sorted(glob.glob(f"{folder}/{name}-?.jsonl")):
        for r in map(json.loads, open(path)):
            v = r["verdict"]
            if v["verdict"] == "infra":
                continue
            speedup = v["speedup_fused"] if v["verdict"] == "genuine" else 0.0
            out.setdefault(r["task"], (r["structure"], []))[1].append((r["tokens"], speedup, v["launches"]))
    return out


def tokens(rows):
    return sum(r[0] for r in rows)


def by_verdicts(rows, chain):
    return rows[:len(chain)]


def by_tokens(rows, chain):
    """Up to the answer with which the chain's tokens are written."""
    n = 0
    while n < len(rows) and tokens(rows[:n]) < tokens(chain):
        n += 1
    return rows[:n]


def like(cut, single, chain):
    """A single agent's answers, of each task as many as the chain's allow."""
    return {t: (s, cut(rows, chain[t][1])) for t, (s, rows) in single.items() if t in chain}


def best(tasks, of):
    """task -> (structure, of(the speedup of its cheapest genuine answer), unused),
    as study_table has it"""
    top = lambda rows: max((speedup for _, speedup, _ in rows), default=0.0)
    return {t: (s, of(top(rows)), None) for t, (s, rows) in tasks.items()}


def line(name, seed, tasks):
    rows = [r for _, r in tasks.values()]
    tops = [max(r, key=lambda x: x[1], default=(0, 0.0, 0)) for r in rows]
    right = [t for t in tops if t[1] > 0]
    print(f"{name:22s} seed {seed}  solved {len(right) / len(rows):.3f} of {len(rows)}  in one launch "
          f"{sum(t[2] == 1 for t in right) / len(rows):.3f}  speedup {np.mean([t[1] for t in tops]):.3f}, of what is "
          f"solved {np.exp(np.mean(np.log([t[1] for t in right]))) if right else 0:.3f}  a task: "
          f"{np.mean([len(r) for r in rows]):.2f} answers, {np.mean([tokens(r) for r in rows]):.0f} tokens")


def training(folder):
    """What the runs of an arm wrote and had judged: the number of answers."""
    if not os.path.exists(f"{folder}/rl/hone.db"):
        return 0
    with sqlite3.connect(f"{folder}/rl/hone.db") as db:
        rows = [json.loads(r) for r, in db.execute("select row from samples")]
    print(f"    training: {len(rows)} answers, {tokens([(r['tokens'],) for r in rows])} tokens, genuine "
          f"{np.mean([r['verdict']['verdict'] == 'genuine' for r in rows]):.3f}")
    return len(rows)


def unequal(trained):
    """Says which seeds' arms did not spend as many verdicts: their time ended first."""
    for seed, arms in sorted(trained.items()):
        if len(set(arms.values())) > 1:
            print(f"seed {seed}: not trained on equal verdicts: " + ", ".join(f"{a} {n}" for a, n in arms.items()))


def show(rng, arms, pairs):
    """The differences in speed, then in what is solved."""
    for name, of in ("speedup, 0 where nothing is genuine", float), ("solved", lambda x: float(x > 0)):
        print(f"\n{name}:")
        counted = {arm: {seed: best(tasks, of) for seed, tasks in seeds.items()} for arm, seeds in arms.items()}
        for a, b in pairs:
            if a in counted and b in counted:
                difference(rng, counted, a, b)


def main():
    folder, samples, rng = sys.argv[1], int(sys.argv[2]), np.random.default_rng(1)
    arms = collections.defaultdict(dict)   # name -> seed -> task -> (structure, answers)
    alone = collections.defaultdict(dict)  # of single agents, all that were drawn
    trained = collections.defaultdict(dict)   # seed -> arm -> answers
    for path in sorted(glob.glob(f"{folder}/*-[0-9]*")):
        arm, seed = os.path.basename(path).rsplit("-", 1)
        chain, single = answers(path, "chain"), answers(path, "single")
        if chain:
            arms[f"{arm}, chain"][int(seed)] = chain
            line(f"{arm}, chain", seed, chain)
        if single:
            alone[arm][int(seed)] = single
            arms[arm][int(seed)] = {t: (s, r[:2 * samples]) for t, (s, r) in single.items()}
            line(f"{arm}, {2 * samples} answers", seed, arms[arm][int(seed)])
        count = training(path)
        if count:
            trained[int(seed)][arm] = count
    unequal(trained)
    pairs = [("two, chain", "one, chain"), ("two, chain", "none, chain"), ("one, chain", "none, chain"),
             ("single", "none")]
    # A single agent as each chain would have it.
    for chain, arm in ("two", "single"), ("one", "single"), ("none", "none"):
        for name, cut in ("verdicts", by_verdicts), ("tokens", by_tokens):
            for seed in arms[f"{chain}, chain"].keys() & alone[arm].keys():
                beside = arms[f"{chain}, chain"][seed]
                arms[f"{arm}, {chain}'s {name}"][seed] = found = like(cut, alone[arm][seed], beside)
                line(f"{arm}, {chain}'s {name}", seed, found)
                short = sum(tokens(r) < tokens(beside[t][1]) for t, (_, r) in found.items())
                if name == "tokens" and short:
                    print(f"    {short} tasks have too few answers for that")
            pairs.append((f"{chain}, chain", f"{arm}, {chain}'s {name}"))
    show(rng, arms, pairs)


main()
