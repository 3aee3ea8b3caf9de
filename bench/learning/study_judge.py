"""Judges the answers of several files together, equal answers to a task once.

    study_judge.py TASKS OUT_DIR FILE... -- COMMAND...

FILE has answers as `hone eval --no-judge --out` writes them (.jsonl, .jsonl.xz). COMMAND is `hone
eval` with what verdicts depend on (trials, threads, store, sizes of costs). For each FILE a file of
its name lies in OUT_DIR afterwards, with a verdict in each row."""
import json, lzma, os, subprocess, sys


def rows(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def write(path, found):
    with open(path, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in found)


def main(tasks, out, files, command):
    os.makedirs(out, exist_ok=True)
    said = {f: rows(f) for f in files}
    number = {}   # (task, answer) -> its place among the different answers to that task
    count = {}
    for r in sum(said.values(), []):
        key = r["task"], r["answer"]
        if key not in number:
            number[key] = count.get(r["task"], 0)
            count[r["task"]] = number[key] + 1
    # Each different answer is the one answer to a task of its own name: the source is the task's.
    listed = subprocess.run(["zcat", "-f", tasks], capture_output=True, check=True).stdout.decode().splitlines()
    known = {t["name"]: t for t in map(json.loads, listed)}
    name = lambda key: f"{key[0]}+{number[key]}"
    write(f"{out}/tasks.jsonl", [dict(known[key[0]], name=name(key)) for key in sorted(number)])
    write(f"{out}/answers.jsonl", [{"task": name(key), "sample": 0, "answer": key[1]} for key in sorted(number)])
    print(f"{sum(map(len, said.values()))} answers in {len(files)} files, {len(number)} different ones", flush=True)
    p = subprocess.run([*command, "--tasks", f"{out}/tasks.jsonl", "--split", "", "--policy_answers",
                        f"{out}/answers.jsonl", "--out", f"{out}/verdicts.jsonl"])
    if p.returncode:
        return p.returncode
    verdicts = {r["task"]: r["verdict"] for r in rows(f"{out}/verdicts.jsonl")}
    for path, answers in said.items():
        judged = [dict(r, verdict=verdicts[name((r["task"], r["answer"]))]) for r in answers]
        write(f"{out}/{os.path.basename(path).removesuffix('.xz')}", judged)
    return 0


if __name__ == "__main__":
    i = sys.argv.index("--")
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:i], sys.argv[i + 1:]))
