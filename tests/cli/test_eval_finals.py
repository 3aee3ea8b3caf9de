"""hone eval judges the best kernel of each task once more on a GPU: under compute-sanitizer, beside
the answers' own verdicts. The GPU is the vm under another name (tests/verify/pretend_gpu.c).
timeout: 600"""
import json, os, sys

sys.path.append("tests")
from command import check, done, run, work_folder

work = work_folder("eval-finals")
build = os.path.abspath(os.environ.get("BUILD", "build/release"))
pretend = f"{build}/tests/verify/pretend"
TASK = """import torch
import torch.nn as nn
M = 8
N = 48


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * FACTOR + 1.0


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
"""
# The second runs twice over: it is slower by what the cost model says, and both are right.
ANSWER = """```python
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(p + i, mask=i < n)
    tl.store(o + i, tl.maximum(x, 0.0) * FACTOR + 1.0, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        for _ in range(TIMES):
            k[(triton.cdiv(x.numel(), 128),)](x, o, x.numel(), B=128)
        return o
```
"""

if not os.path.exists(f"{pretend}/hone-runner"):
    print("1..0 # SKIP the pretended runner is not built: make test builds it")
    sys.exit(0)
# The program that takes the pretended runner lies beside it.
hone = f"{pretend}/hone"
if os.path.exists(hone):
    os.unlink(hone)
os.link(f"{build}/hone", hone)
os.makedirs(f"{work}/answers", exist_ok=True)
with open(f"{work}/tasks.jsonl", "w") as f:
    for name, factor in (("one", "1.5"), ("two", "2.5"), ("none", "3.5")):
        f.write(json.dumps({"name": name, "level": 1, "source": TASK.replace("FACTOR", factor)}) + "\n")
for name, factor in (("one", "1.5"), ("two", "2.5"), ("none", "9.0")):
    for sample, times in ((0, "2"), (1, "1")):
        with open(f"{work}/answers/{name}.{sample}.txt", "w") as f:
            f.write(ANSWER.replace("FACTOR", factor).replace("TIMES", times))
tool = f"{work}/bin/compute-sanitizer"
os.makedirs(f"{work}/bin", exist_ok=True)
with open(tool, "w") as f:
    f.write("#!/bin/sh\necho '========= ERROR SUMMARY: 0 errors'\nshift 6\nexec \"$@\"\n")
os.chmod(tool, 0o755)
os.environ["PATH"] = f"{os.path.abspath(work)}/bin:{os.environ['PATH']}"
os.environ.setdefault("HONE_PYTHON", os.path.abspath("build/venv/bin/python"))
p = run(hone, "eval", "--policy_answers", f"{work}/answers", "--tasks", f"{work}/tasks.jsonl",
        "--split", "", "--num_samples", "2", "--verify_device", "cuda", "--verify_threads", "2", "--json",
        "--out", f"{work}/rows.jsonl")
check("eval ends well", p.returncode == 0, p.stderr[-2000:])
finals = json.loads(p.stdout)["finals"]
rows = [json.loads(line) for line in open(f"{work}/rows.jsonl")]
last = {r["task"]: r for r in rows if r.get("stage") == "final"}
check("the two tasks with a genuine kernel have a final verdict", sorted(last) == ["one", "two"], str(last)[:2000])
check("the cheaper kernel is the best", all(r["sample"] == 1 for r in last.values()), str(last)[:2000])
check("it is genuine under all three tools",
      all(r["verdict"]["verdict"] == "genuine" and
          r["verdict"]["device"]["sanitizer"] == {"memcheck": 0, "racecheck": 0, "initcheck": 0, "text": ""}
          for r in last.values()), str(last)[:2000])
check("answers run under no tool", all(r["verdict"]["device"]["sanitizer"]["memcheck"] is None
                                       for r in rows if r.get("stage") != "final"), str(rows)[:500])
check("the summary counts them", (finals["tasks"], finals["genuine"], finals["sanitized"]) == (2, 2, 2), str(finals))
check("without a clock none is timed", finals["timed"] == 0 and finals["lost"] == {}, str(finals))
done()
