"""Pairs as they are collected where nobody verifies: the answers of a file of pairs with some operators in a form that is widespread and wrong, by an
approximation (GELU and erf through tanh, Keras's hard sigmoid where PyTorch has another) or for inputs that overflow it (a quotient of exponentials).

usage: unverified_pairs.py PAIRS.jsonl[.gz] OUT.jsonl     training rows only; a row's `unverified` lists the operators that were rewritten"""
import gzip, json, re, sys

IMPORT = "from triton.language.extra import libdevice\n"
FORMS = {   # operator: the statement in verified answers, and the widespread one
    "gelu": ("x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))", "x = 0.5 * x * (1.0 + libdevice.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))"),
    "tanh": ("x = libdevice.tanh(x)", "x = (tl.exp(x) - tl.exp(-x)) / (tl.exp(x) + tl.exp(-x))"),
    "sigmoid": ("x = tl.sigmoid(x)", "x = tl.exp(x) / (1.0 + tl.exp(x))"),
    "erf": ("x = tl.erf(x)", "x = libdevice.tanh(1.128379167 * (x + 0.08943 * x * x * x))"),
    "hardswish": ("x = x * tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) / 6.0", "x = x * tl.minimum(tl.maximum(0.2 * x + 0.5, 0.0), 1.0)"),
    "hardsigmoid": ("x = tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) / 6.0", "x = tl.minimum(tl.maximum(0.2 * x + 0.5, 0.0), 1.0)"),
}


def rewrite(row):
    operators, lines, changed = row["structure"].split(":", 1)[1].split(","), row["completion"].split("\n"), []
    for i, line in enumerate(lines):
        for name in operators:
            if name in FORMS and line.strip() == FORMS[name][0]:
                lines[i] = line.replace(*FORMS[name])
                changed.append(name)
                break
    # The import follows what is left to be imported.
    text = "\n".join(lines).replace(IMPORT, "")
    if "libdevice." in text:
        text = text.replace("import triton.language as tl\n", "import triton.language as tl\n" + IMPORT, 1)
    return dict(row, completion=text, unverified=changed)


def main(source, out):
    with (gzip.open if source.endswith(".gz") else open)(source, "rt") as f:
        rows = [rewrite(r) for r in map(json.loads, f) if r["split"] == "train"]
    with open(out, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    print(f"{out}: {len(rows)} answers, {sum(bool(r['unverified']) for r in rows)} with operators rewritten")


main(*sys.argv[1:3])
