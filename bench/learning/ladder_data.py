"""What the seeds of the ladder's study share (bench/learning/ladder.sh).

    ladder_data.py PAIRS TASKS HAND_LIST LIMIT OUT_DIR

Writes pairs.jsonl (of T1 and T2, without what is held out), text.jsonl (the first of them, for the
tokenizer), tasks.jsonl (of TASKS, which are of test structures: one of each structure, at most
LIMIT of those of known operators and families, and two fifths as many of each operator and of the
family held out) and hand.jsonl. A task's set is its field `set`."""
import gzip, hashlib, json, os, re, sys

OPERATORS = ("exp_neg_abs", "softsign")
FAMILY = "mid_scan"
TEXTS = 3000


def rows(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def write(path, found):
    """Beside, and then renamed: what is there is whole."""
    with open(path + ".tmp", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in found)
    os.rename(path + ".tmp", path)


def set_of(structure):
    words = re.findall(r"\w+", structure)
    if words[0] == FAMILY:
        return "family"
    return next((o for o in OPERATORS if o in words), "structures")


def hand_tasks(path):
    for line in open(path):
        name = line.strip()
        if name and not name.startswith("#"):
            yield {"name": name, "source": open(f"tasks/hand/{name}.py").read(), "split": "hand",
                   "level": int(name[len("level")]), "set": "hand"}


def main(pairs, tasks, hand, limit, out):
    known = [r for r in rows(pairs) if r["rung"] in ("T1", "T2")]
    learnt = [r for r in known if set_of(r["structure"]) == "structures"]
    seen, count, chosen = set(), {}, []
    # In the order of their hashes: rungs and families stand one after the other.
    for t in sorted(rows(tasks), key=lambda t: hashlib.sha256(t["source"].encode()).digest()):
        kind = set_of(t["structure"])
        assert t["split"] == "test"
        if t["structure"] not in seen and count.get(kind, 0) < (limit if kind == "structures" else limit * 2 // 5):
            seen.add(t["structure"])
            count[kind] = count.get(kind, 0) + 1
            chosen.append(dict(t, set=kind))
    assert not seen & {r["structure"] for r in learnt}
    write(f"{out}/tasks.jsonl", chosen)
    write(f"{out}/hand.jsonl", hand_tasks(hand))
    write(f"{out}/text.jsonl", learnt[:TEXTS])
    write(f"{out}/pairs.jsonl", learnt)   # last: with this file all are there
    print(f"{len(learnt)} pairs of {len(known)}, {len({r['completion'] for r in learnt})} answers, "
          f"{len({r['structure'] for r in learnt})} structures; test structures {count}")


main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
