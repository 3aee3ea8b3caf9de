"""Pairs of a frontend with a launch an operator, and of the mid-end that fuses what it writes.

    midend_pairs.py VERIFIED.jsonl[.gz] TASKS.jsonl[.gz] OUT_PAIRS OUT_RL_TASKS

VERIFIED has pairs of the mid-end in one style (`hone pairs synth --stage midend --style 0`). From
their training rows are taken: the kernel of each operator, its statement, its name in plans, its
flops an element, and its time. Each verified row is put together again from these parts and has to
come out as it is, its predicted time within 0.2 us; rows that do not are counted and give nothing.
Then each training task without a repeated operator whose operators are all known gets two rows that
nobody verified: the module with the slow kernel as its answer, and the slow kernel with its costs
with the fused kernel as its answer. A fifth of the structures is left to reinforcement learning."""
import gzip, hashlib, json, math, re, sys

import numpy

BLOCK, NOISE_US = 64, 0.2
IMPORT = "from triton.language.extra import libdevice\n"
LIMIT = "latency: too few programs at once, or a long chain of dependent steps"


def rows_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        return [r for r in map(json.loads, f) if r["split"] == "train"]


def operators(row):
    return row["structure"].split(":", 1)[1].split(",")


def elements(source):
    """Of the one input: its sizes are names at the top of the module, or numbers."""
    sizes = dict(re.findall(r"^(\w+) = (\d+)$", source, re.M))
    shape = re.search(r"torch\.randn\(([^)]*)\)", source)[1]
    return math.prod(int(sizes.get(s.strip(), s)) for s in shape.split(","))


def listed(names):
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


class Parts:
    def __init__(self, rows):
        self.kernels, self.statements, self.names, self.flops = {}, {}, {}, {}
        for row in rows:
            ops, lines = operators(row), row["profile"]["lines"]
            head, kernels, self.tail = self.cut(row["kernel"])
            self.head = head.replace(IMPORT, "")
            fused, plan = row["completion"].split("```python\n")[1], row["completion"].split("\n")[0]
            before, body = fused.replace(IMPORT, "").split("mask=mask)\n", 1)
            body, behind = body.split("    tl.store(", 1)
            self.fused = before + "mask=mask)\n", "    tl.store(" + behind
            names, self.plan = plan.removeprefix("Fuse ").split(" into ", 1)
            self.kernels.update(zip(ops, kernels))
            self.statements.update(zip(ops, body.splitlines(True)))
            self.names.update(zip(ops, names.replace(" and ", ", ").split(", ")))
            lanes = math.ceil(elements(row["source"]) / BLOCK) * BLOCK
            self.flops.update((o, lines[3 * i + 1]["flops"] / lanes) for i, o in enumerate(ops))
        self.fit_times(rows)

    @staticmethod
    def cut(kernel):
        """-> head, the kernels, the class"""
        head, *kernels = re.split(r"(?=@triton\.jit\n)", kernel)
        last, tail = kernels[-1].split("class ModelNew", 1)
        return head, kernels[:-1] + [last], tail

    def fit_times(self, rows):
        """A launch's time is its operator's and a little for each element: least squares over the
        verified kernels' predicted times."""
        at = {o: i for i, o in enumerate(sorted(self.flops))}
        a, us = numpy.zeros((len(rows), len(at) + 1)), [r["profile"]["cost_s"] * 1e6 for r in rows]
        for k, row in enumerate(rows):
            for o in operators(row):
                a[k, at[o]] += 1
                a[k, -1] += elements(row["source"])
        found = numpy.linalg.lstsq(a, numpy.array(us), rcond=None)[0]
        self.us, self.us_element = {o: found[i] for o, i in at.items()}, found[-1]

    def slow(self, ops):
        code, given = self.head + "".join(self.kernels[o] for o in ops) + "class ModelNew(nn.Module):\n", "x"
        code += "    def forward(self, x):\n"
        for i, o in enumerate(ops, 1):
            out = "out" if i == len(ops) else f"t{i}"
            code += (f"        {out} = torch.empty_like({given})\n        n = {given}.numel()\n"
                     f"        grid = (triton.cdiv(n, {BLOCK}),)\n"
                     f"        {o}_kernel[grid]({given}, {out}, n, BLOCK={BLOCK})\n")
            given = out
        return self.imported(code + "        return out\n")

    @staticmethod
    def imported(code):
        title = "import triton.language as tl\n"
        return code.replace(title, title + IMPORT, 1) if "libdevice." in code else code

    def answer(self, ops):
        code = self.imported(self.fused[0] + "".join(self.statements[o] for o in ops) + self.fused[1])
        return f"Fuse {listed([self.names[o] for o in ops])} into {self.plan}\n```python\n{code}"

    def cost(self, ops, code, n):
        """Lines and time. A block of 64 elements has half of the threads that it is run by, so that
        each sector is asked for twice where it is read."""
        text = code.split("\n")
        at = [i for i, line in enumerate(text, 1) if "tl.load(" in line]
        programs, sectors, lines = math.ceil(n / BLOCK), math.ceil(n / 8), []
        for o, line in zip(ops, at):
            flops = round(self.flops[o] * programs * BLOCK)
            lines += [(line, 4 * n, 2 * sectors, 0), (line + 1, 0, 0, flops), (line + 2, 4 * n, sectors, 0)]
        us, k = sum(self.us[o] + self.us_element * n for o in ops), len(ops)
        table = "".join("line %d: %d bytes, %d sectors, %d flops\n" % line for line in lines[:8])
        return table + "total: %d launches, %d programs, %d bytes, %d sectors, " % (k, k * programs, 8 * n * k,
                                                                                    3 * sectors * k), us

    def prompt(self, ops, n):
        code = self.slow(ops)
        table, us = self.cost(ops, code, n)
        return f"### slow\n{code}### cost\n{table}{us:.2f} us\n### limit\n{LIMIT}\n### kernel\n\n", us

    def is_known(self, row):
        ops = operators(row)
        return len(set(ops)) == len(ops) and self.flops.keys() >= set(ops)

    def is_again(self, row):
        """Whether a verified row comes out as it is: all but the time to the letter."""
        ops, time = operators(row), re.compile(r", [\d.]+ us\n")
        prompt, us = self.prompt(ops, elements(row["source"]))
        return (time.sub("", prompt) == time.sub("", row["prompt"]) and self.slow(ops) == row["kernel"]
                and self.answer(ops) == row["completion"] and abs(us - row["profile"]["cost_s"] * 1e6) < NOISE_US)


def is_for_rl(row):
    return hashlib.sha256(row["structure"].encode()).digest()[-1] % 5 == 0


def main(verified, tasks, out_pairs, out_rl):
    rows = [r for r in rows_of(verified) if len(set(operators(r))) == len(operators(r))]
    parts = Parts(rows)
    again = [r for r in rows if parts.is_again(r)]
    print(f"{len(again)} of {len(rows)} verified rows come out of their parts as they are")
    if len(again) < 0.95 * len(rows):
        sys.exit(f"{verified}: expected pairs of the mid-end in the generator's first style, put together otherwise")
    known = [t for t in rows_of(tasks) if parts.is_known(t)]
    given = [t for t in known if not is_for_rl(t)]
    with open(out_pairs, "w") as f:
        for t in given:
            ops, base = operators(t), {k: t[k] for k in ("name", "source", "structure", "split", "level", "seed")}
            front = {"prompt": t["source"].rstrip() + "\n### kernel\n\n",
                     "completion": f"One kernel for each operator.\n```python\n{parts.slow(ops)}```\n"}
            mid = {"prompt": parts.prompt(ops, elements(t["source"]))[0], "completion": parts.answer(ops)}
            f.writelines(json.dumps({**base, "name": f"{t['name']}-{name}", **pair}) + "\n"
                         for name, pair in (("front", front), ("mid", mid)))
    with open(out_rl, "w") as f:
        f.writelines(json.dumps(t) + "\n" for t in known if is_for_rl(t))
    for name, part in ("pairs of either stage", given), ("tasks for reinforcement learning", [t for t in known
                                                                                            if is_for_rl(t)]):
        print(f"{len(part)} {name}, {len({t['structure'] for t in part})} structures")


main(*sys.argv[1:])
