"""What the study of contrastive prompts (contrast.sh) needs beside hone.

    contrast_rows.py data PAIRS DIR TRAIN TEST   tasks, and five answers of different speed to each
    contrast_rows.py choose DIR                  of those, judged: what is shown, and what is learnt
    contrast_rows.py record OUT                  a policy command that writes down what it is asked
    contrast_rows.py pairs LEARNT ASKED OUT      those questions with what is learnt
    contrast_rows.py table FILE...               rows of `hone eval --out`: solved, and how fast

PAIRS are pairs of the mid-end: a kernel with a launch an operator, and the fused one as the answer.
Answers to a task are the former, and the fused one in blocks of 16, 64, 256 and 1,024. What is
learnt is the fastest of them; shown are the one with a launch an operator and two of the others,
drawn by the task's name: so nothing shown is what the fit asks for, and that is faster than it."""
import gzip, hashlib, json, math, os, sys

BLOCKS = (16, 64, 256, 1024)
SHOWN_MAX = 2860   # characters of the three kernels: with 270 tokens of an answer they fit 1,536 positions


def rows(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as f:
        return [json.loads(line) for line in f]


def write(path, found):
    with open(path, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in found)


def code_of(answer):
    return answer.rsplit("```python\n", 1)[1].split("```")[0] if "```python\n" in answer else ""


def data(pairs, folder, train, test):
    """Of the held-out splits one task a structure."""
    known, seen = rows(pairs), set()
    tasks = {"train": [], "test": []}
    most = {"train": int(train), "test": int(test)}
    for r in known:
        split = "train" if r["split"] == "train" else "test"
        fits = len(r["kernel"]) + 2 * len(code_of(r["completion"])) <= SHOWN_MAX
        if fits and most[split] and (split == "train" or r["structure"] not in seen):
            most[split] -= 1
            seen.add(r["structure"])
            tasks[split].append({k: r[k] for k in ("name", "source", "structure", "level", "rung", "seed")})
    chosen, answers = {t["name"] for part in tasks.values() for t in part}, []
    for r in known:
        if r["name"] in chosen:
            fused = r["completion"]
            block = code_of(fused).split("BLOCK=")[-1].split(")")[0]
            forms = [fused.replace(f"BLOCK={block})", f"BLOCK={b})").replace(f"cdiv(n, {block})", f"cdiv(n, {b})")
                     .replace(f"takes {block} ", f"takes {b} ") for b in BLOCKS]
            for n, text in enumerate((f"```python\n{r['kernel']}```\n", *forms)):
                answers.append({"task": r["name"], "sample": n, "answer": text})
    for split, part in tasks.items():
        write(f"{folder}/{split}.jsonl", part)
    write(f"{folder}/tasks.jsonl", tasks["train"] + tasks["test"])
    write(f"{folder}/answers.jsonl", answers)


def choose(folder):
    answers = {(a["task"], a["sample"]): a["answer"] for a in rows(f"{folder}/answers.jsonl")}
    by_task, shown, learnt = {}, [], []
    for r in rows(f"{folder}/judged.jsonl"):
        if r["verdict"]["verdict"] == "genuine" and r["verdict"].get("cost_s"):
            by_task.setdefault(r["task"], []).append(r)
    for task, judged in by_task.items():
        if len(judged) < 1 + len(BLOCKS):
            continue
        unfused, *fused = sorted(judged, key=lambda r: r["sample"])
        best = min(fused, key=lambda r: r["verdict"]["cost_s"])
        fused.remove(best)
        fused.pop(hashlib.sha256(task.encode()).digest()[0] % len(fused))
        shown += [unfused, *fused]
        learnt.append({"name": task, "completion": answers[task, best["sample"]]})
    write(f"{folder}/learnt.jsonl", learnt)
    write(f"{folder}/shown.jsonl", shown)


def record(out):
    with open(out, "a") as f:
        for line in sys.stdin:
            r = json.loads(line)
            f.write(json.dumps({"task": r["task"], "prompt": r["messages"][-1]["content"]}) + "\n")
            f.flush()
            print(json.dumps({"id": r["id"], "answer": "none"}), flush=True)


def pairs(known, asked, out):
    said = {r["name"]: r["completion"] for r in rows(known)}
    write(out, [{"prompt": r["prompt"] + "\n", "completion": said[r["task"]], "split": "train"}
                for r in rows(asked) if r["task"] in said])


def table(files):
    shown = {}
    for r in rows(os.path.join(os.path.dirname(os.path.dirname(files[0])), "shown.jsonl")):
        if r["verdict"]["verdict"] == "genuine":
            shown.setdefault(r["task"], {})[code_of(r["answer"])] = r["verdict"]["cost_s"]
    for path in files:
        by_task, genuine, copied, count = {}, 0, 0, 0
        for r in rows(path):
            v = r["verdict"]
            count += v["verdict"] != "infra"
            by_task.setdefault(r["task"], [])
            if v["verdict"] == "genuine":
                genuine += 1
                copied += code_of(r["answer"]) in shown[r["task"]]
                if v.get("cost_s"):
                    by_task[r["task"]].append(v["cost_s"])
        solved = {t: min(c) for t, c in by_task.items() if c}
        ratio = [math.log(min(shown[t].values()) / c) for t, c in solved.items()]
        speed = math.exp(sum(ratio) / len(ratio)) if ratio else math.nan
        print(f"{path}: {count} answers, {genuine} genuine ({genuine / max(1, count):.3f}), {copied} of them "
              f"kernels that may be shown; {len(solved)} of {len(by_task)} tasks solved, the cheapest x{speed:.3f} "
              f"as fast as the fastest variant, faster than it {sum(x > 0.02 for x in ratio)}")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    {"data": data, "choose": choose, "record": record, "pairs": pairs, "table": lambda *f: table(f)}[what](*rest)
