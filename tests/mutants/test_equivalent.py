"""tests/mutants/equivalent.json against the kernels that it speaks of: each entry names one edit
that tools/kernel_mutants.py makes in its case's candidate, so none excuses another place, and none
outlives its kernel."""
import difflib, json, os, sys, tempfile

sys.path.insert(0, "tools")
import kernel_mutants as mutants

count = 0


def check(name, ok, detail=""):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}" + ("" if ok else f"\n# {detail}"))


def edited(case, arguments):
    """Which entries of a case are what one of its edits changes."""
    text, found = mutants.Text(open(f"{mutants.GOOD}/{case}/candidate.py").read()), set()
    old, wanted = text.source.splitlines(), {line for a in arguments for line in a["changed"]}
    for begin, end, new in (place for places in mutants.edits(text).values() for place in places):
        lines = (text.data[:begin] + new.encode() + text.data[end:]).decode().splitlines()
        if wanted & {line.strip() for line in lines}:
            difference = list(difflib.ndiff(old, lines))
            edit = tuple([d[2:].strip() for d in difference if d.startswith(sign)] for sign in ("- ", "+ "))
            found |= {i for i, a in enumerate(arguments) if (a["was"], a["changed"]) == edit}
    return [i in found for i in range(len(arguments))]


def excused(case, was, becomes):
    """Whether a mutant that turns one text into another has a written argument."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
        source = open(f"{mutants.GOOD}/{case}/candidate.py").read()
        assert source.count(was) == 1, was
        f.write(source.replace(was, becomes))
        f.flush()
        return mutants.written({"case": case, "candidate": os.path.relpath(f.name, mutants.ROOT)}, everything)


everything = json.load(open(mutants.EQUIVALENT))
keys = [(a["case"], str(a["was"]), str(a["changed"])) for a in everything]
check("no entry stands twice", len(keys) == len(set(keys)), [k for k in keys if keys.count(k) > 1])
check("each says why, and who has read it counts", all(a["why"] and a["readers"] >= 1 for a in everything))
for case in sorted({a["case"] for a in everything}):
    mine = [a for a in everything if a["case"] == case]
    is_edit = edited(case, mine)
    check(f"{case}: its entries are edits of its candidate", all(is_edit),
          [a for a, ok in zip(mine, is_edit) if not ok])
check("a barrier that is left out is the entry's",
      excused("decoupled_lookback_scan", "    tl.debug_barrier()\n", "    pass\n"))
check("a flag that is left out beside it is not",
      not excused("decoupled_lookback_scan", "    tl.atomic_xchg(flags + pid, 1)\n", "    pass\n"))
print(f"1..{count}")
