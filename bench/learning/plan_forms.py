"""Pairs with their plans in another place, for study s3.

    plan_forms.py FORM PAIRS OUT      FORM: plan, none, behind, shuffled

plan: as they are, in front of the code. none: the code alone. behind: the same words behind the
code, where they cannot help to write it. shuffled: in front, but each row has the plan of another
one of the same split, drawn by a fixed seed, so that length and form are those of plans and the
content is not."""
import gzip, json, random, re, sys

PAIR = re.compile(r"\A(.*?)\n(```\w+\n.*```\n)\Z", re.DOTALL)


def opened(path):
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path)


def main():
    form, source, out = sys.argv[1:]
    rows = [json.loads(line) for line in opened(source)]
    parts = [PAIR.match(r["completion"]).groups() for r in rows]
    plans = [p for p, _ in parts]
    if form == "shuffled":
        for split in sorted({r["split"] for r in rows}):
            at = [i for i, r in enumerate(rows) if r["split"] == split]
            shift = random.Random(1).randrange(1, len(at))      # everybody gets another one's
            for i, k in enumerate(at):
                plans[k] = parts[at[(i + shift) % len(at)]][0]
    elif form not in ("plan", "none", "behind"):
        sys.exit(__doc__)
    with open(out, "w") as f:
        for row, plan, (_, code) in zip(rows, plans, parts):
            row["completion"] = {"none": code, "behind": f"{code}{plan}\n"}.get(form, f"{plan}\n{code}")
            f.write(json.dumps(row) + "\n")


main()
