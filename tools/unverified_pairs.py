"""Pairs as they are collected where nobody verifies: answers to tasks, put together from the
statements of verified answers, with some operators in a form that is widespread and wrong, by an
approximation (GELU and erf through tanh, Keras's hard sigmoid where PyTorch has another) or for
inputs that overflow it (a quotient of exponentials).

    unverified_pairs.py PAIRS.jsonl[.gz] TASKS.jsonl[.gz] FROM COUNT OUT.jsonl [N]
    unverified_pairs.py others PAIRS.jsonl[.gz] OUT.jsonl

The first answers COUNT training tasks behind the first FROM; a row's `unverified` lists the
operators in a wrong form, and one time in N they are right. The second keeps the rows without these
operators, and all dev rows."""
import gzip, hashlib, json, sys

IMPORT = "from triton.language.extra import libdevice\n"
LOAD, STORE, TITLE = "    x = tl.load(x_ptr + offs, mask=mask)\n", "    tl.store(", "import triton.language as tl\n"
FORMS = {   # operator: the widespread form
    "gelu": "x = 0.5 * x * (1.0 + libdevice.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))",
    "tanh": "x = (tl.exp(x) - tl.exp(-x)) / (tl.exp(x) + tl.exp(-x))",
    "sigmoid": "x = tl.exp(x) / (1.0 + tl.exp(x))",
    "erf": "x = libdevice.tanh(1.128379167 * (x + 0.08943 * x * x * x))",
    "hardswish": "x = x * tl.minimum(tl.maximum(0.2 * x + 0.5, 0.0), 1.0)",
    "hardsigmoid": "x = tl.minimum(tl.maximum(0.2 * x + 0.5, 0.0), 1.0)",
}


def rows_of(path, split="train"):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        return [r for r in map(json.loads, f) if r["split"] == split]


def operators(row):
    return row["structure"].split(":", 1)[1].split(",")


def listed(names):
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


class Answers:
    """What verified answers say: for each operator its name in the plan and its statement in the
    kernel, and the text around them."""

    def __init__(self, pairs):
        self.names, self.statements = {}, {}
        for row in pairs:
            text, ops = row["completion"].replace(IMPORT, ""), operators(row)
            plan, rest = text.split(" into", 1)
            before, behind = rest.split(LOAD, 1)
            body, behind = behind.split(STORE, 1)
            self.before, self.behind = before, behind
            self.names.update(zip(ops, plan[len("Fuse "):].replace(" and ", ", ").split(", ")))
            self.statements.update(zip(ops, map(str.strip, body.strip("\n").split("\n"))))
            self.suffix = row["prompt"][len(row["source"]):]
        for row in pairs:     # what is put together below is what the verifier admitted
            if self.write(operators(row), [False] * 9) != row["completion"]:
                sys.exit(f"{row['name']}: a verified answer is not plan and chain of statements in the form of the "
                         f"others: answers of one style are needed "
                         "(hone pairs synth --style 0)")

    def write(self, ops, wrong):
        """wrong: for each operator whether its statement is the widespread one."""
        body = "".join(f"    {FORMS[o] if is_wrong else self.statements[o]}\n" for o, is_wrong in zip(ops, wrong))
        text = f"Fuse {listed([self.names[o] for o in ops])} into{self.before}{LOAD}{body}{STORE}{self.behind}"
        return text.replace(TITLE, TITLE + IMPORT, 1) if "libdevice." in body else text


def are_wrong(name, ops, right):
    """Drawn from the task's name, so that the file is the same each time."""
    drawn = lambda i: hashlib.sha256(f"{name} {i}".encode()).digest()[0]
    return [o in FORMS and (not right or drawn(i) % right > 0) for i, o in enumerate(ops)]


def main(pairs, tasks, skipped, count, out, right="0"):
    answers = Answers(rows_of(pairs))
    chosen = rows_of(tasks)[int(skipped):int(skipped) + int(count)]
    count = 0
    with open(out, "w") as f:
        for t in chosen:
            ops = operators(t)
            wrong = are_wrong(t["name"], ops, int(right))
            count += any(wrong)
            f.write(json.dumps(dict(t, prompt=t["source"] + answers.suffix, completion=answers.write(ops, wrong),
                                    unverified=[o for o, is_wrong in zip(ops, wrong) if is_wrong])) + "\n")
    print(f"{out}: {len(chosen)} answers, {count} with an operator in a wrong form")


def others(pairs, out):
    with (gzip.open if pairs.endswith(".gz") else open)(pairs, "rt") as f:
        lines = [(line, json.loads(line)) for line in f]
    kept = [line for line, r in lines if r["split"] != "train" or not set(operators(r)) & FORMS.keys()]
    with open(out, "w") as f:
        f.writelines(kept)
    print(f"{out}: {len(kept)} of {len(lines)} rows")


if sys.argv[1:2] == ["others"]:
    others(*sys.argv[2:4])
else:
    main(*sys.argv[1:7])
