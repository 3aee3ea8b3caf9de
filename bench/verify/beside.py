"""KernelBench's own verdict beside hone's, over exploits, their honest twins and known-good
kernels.

usage: build/venv/bin/python bench/verify/beside.py [--threads 2] [--hidden 1]
           [--list FILE | --verdicts FILE]

--list writes what is to be graded (build/release/bench/verify/grade_list reads it, in the
repository's root) and grades nothing; --verdicts takes what grade_list printed elsewhere.

KernelBench's check is that of each record: torch.allclose with its tolerance on stock inputs under
its first seed, as far as the vm ran the candidate up to its outputs. "not reached" are candidates
that were refused before, or stopped at a fault that a GPU may or may not show.
"""
import argparse, json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GROUPS = ("wrong or cheating", "honest twin", "known good")


def candidates():
    """(group, task, candidate), paths counted from the root."""
    for folder, group in (("tests/exploits", None), ("tests/known_good", "known good")):
        for name in sorted(os.listdir(f"{ROOT}/{folder}")):
            at = f"{folder}/{name}"
            if not os.path.exists(f"{ROOT}/{at}/task.py"):
                continue
            for file in ("candidate.py", "twin.py"):
                if os.path.exists(f"{ROOT}/{at}/{file}"):
                    is_twin = file == "twin.py" or name.endswith("_twin")
                    yield group or GROUPS[is_twin], f"{at}/task.py", f"{at}/{file}"


def lines():
    return "".join(json.dumps({"id": c, "group": g, "task": t, "candidate": c}) + "\n" for g, t, c in candidates())


def graded(o):
    if o.verdicts:
        return open(o.verdicts).read()
    p = subprocess.run([f"{ROOT}/build/release/bench/verify/grade_list", str(o.threads), str(o.hidden)], input=lines(),
                       stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if p.returncode:
        sys.exit(f"beside: grade_list ended with {p.returncode}")
    return p.stdout


def table(rows):
    print("| | candidates | genuine by hone | KernelBench's check passes | fails | not reached |")
    print("|---|---|---|---|---|---|")
    for group in GROUPS:
        mine = [r["verdict"] for r in rows if r["group"] == group]
        says = [v["kernelbench"]["correctness"] for v in mine]
        print(f"| {group} | {len(mine)} | {sum(v['verdict'] == 'genuine' for v in mine)} | "
              f"{sum(s is True for s in says)} | {sum(s is False for s in says)} | "
              f"{sum(s is None for s in says)} |")
    for r in rows:
        is_honest = r["group"] != GROUPS[0]
        if (r["verdict"]["verdict"] == "genuine") != is_honest:
            print(f"\n{r['id']} ({r['group']}): {r['verdict']['verdict']}/{r['verdict']['reason']}: "
                  f"{r['verdict']['detail'][:200]}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--hidden", type=int, default=1, help="seed of the verifier's hidden inputs")
    a.add_argument("--list")
    a.add_argument("--verdicts")
    o = a.parse_args()
    if o.list:
        with open(o.list, "w") as f:
            f.write(lines())
        return
    table([json.loads(line) for line in graded(o).splitlines()])


if __name__ == "__main__":
    main()
