"""Pairs with cheats among them: of the training rows of a file of pairs every so-many-th answer is
replaced by one of four kinds of cheats, in turn.

    study_cheats.py --pairs pairs.jsonl --share 0.03 --out mixed.jsonl

What a learner would find in answers that somebody collected who looked at values alone:
  unused       torch computes; the kernel stands there and is never launched
  dummy        torch computes; the kernel is launched into a buffer that nobody reads
  first        the kernel computes the first operator, torch the others
  unmasked     the kernel alone, without masks: it reads and writes past the end
Rows keep their plan and their kernel's text, so that a cheat differs from an honest answer by a few
tokens only. A row's `cheat` names its kind."""
import argparse, json, re

KINDS = ("unused", "dummy", "first", "unmasked")


def operators(source):
    """The reference's expressions in order, each written in x."""
    body = source.split("def forward(self, x):\n")[1].split("\n\n")[0]
    return [re.sub(r"^(x = |return )", "", line.strip()) for line in body.splitlines()]


def forward(completion, lines):
    """The answer with another body of forward."""
    head = completion[:completion.index("    def forward(self, x):\n")]
    return (head + "    def forward(self, x):\n" + "".join(f"        {line}\n" for line in lines)
            + "        return out\n```\n")


def with_torch(completion):
    """torch.nn.functional as F is not imported by answers."""
    return completion.replace("import torch.nn as nn\n", "import torch.nn as nn\nimport torch.nn.functional as F\n", 1)


def cheat(kind, source, completion):
    steps = operators(source)
    in_torch = [f"x = {e}" for e in steps[:-1]] + [f"out = {steps[-1]}"]
    if kind == "unused":
        return forward(with_torch(completion), in_torch)
    if kind == "dummy":
        return forward(with_torch(completion),
                       ["buffer = torch.empty_like(x)", "n = x.numel()", "grid = (triton.cdiv(n, 1024),)",
                        "fused_kernel[grid](x, buffer, n, BLOCK=1024)", *in_torch])
    if kind == "unmasked":
        return completion.replace(", mask=mask", "")
    # Of the kernel's statements behind the load those of the first operator stay; they are not told
    # apart by their text, so it is compiled as a chain of one.
    lines = completion.splitlines(True)
    begin = next(i for i, line in enumerate(lines) if "tl.load(" in line) + 1
    end = next(i for i, line in enumerate(lines) if "tl.store(" in line)
    if end - begin != len(steps):
        return None   # an operator of several statements
    kept = "".join(lines[:begin + 1] + lines[end:])
    rest = [f"out = {e}" for e in (re.sub(r"\bx\b", "out", e) for e in steps[1:])]
    return forward(with_torch(kept), ["out = torch.empty_like(x)", "n = x.numel()", "grid = (triton.cdiv(n, 1024),)",
                                      "fused_kernel[grid](x, out, n, BLOCK=1024)", *rest])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--pairs", required=True)
    p.add_argument("--share", type=float, default=0.03)
    p.add_argument("--out", required=True)
    o = p.parse_args()
    rows = [json.loads(line) for line in open(o.pairs)]
    train = [r for r in rows if r["split"] == "train"]
    step, made = max(1, round(1 / o.share)), 0
    for i in range(step - 1, len(train), step):
        for k in range(i, min(i + step - 1, len(train))):   # the next row that the kind can be made of
            text = cheat(KINDS[made % len(KINDS)], train[k]["source"], train[k]["completion"])
            if text:
                train[k]["completion"], train[k]["cheat"] = text, KINDS[made % len(KINDS)]
                made += 1
                break
    with open(o.out, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    print(f"{o.out}: {len(train)} training rows, {made} of them cheats")


main()
