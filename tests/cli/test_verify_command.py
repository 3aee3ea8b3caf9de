"""hone verify: a folder of candidates, exit statuses, --json, --audit.  timeout: 300"""
import json, sys

sys.path.append("tests")
from command import check, done, hone, run, work_folder

work = work_folder("verify_command")
TASK = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return EXPRESSION

def get_inputs():
    return [torch.randn(300)]

def get_init_inputs():
    return []
"""
CANDIDATE = """import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def k(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.maximum(tl.load(p + i, mask=i < n), BOUND), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), B=256)
        return o
"""


def write(name, text):
    with open(f"{work}/{name}", "w") as f:
        f.write(text)


def verify(*more, task="task.py", expect=None):
    return run(hone, "verify", "--task", f"{work}/{task}", "--threads", "1", "--num_correct_trials", "1", "--seed", "3",
               *more, expect=expect)


def main():
    run("mkdir", "-p", f"{work}/all", f"{work}/none")
    write("task.py", TASK.replace("EXPRESSION", "torch.relu(x)"))
    write("constant.py", TASK.replace("EXPRESSION", "x * 0 + 1"))
    write("all/good.py", CANDIDATE.replace("BOUND", "0.0"))
    write("all/wrong.py", CANDIDATE.replace("BOUND", "0.5"))
    write("all/py", "a name that only ends like one")
    write("all/notes.pyc", "no candidate")
    write("none/readme.txt", "no candidate")
    # One candidate, then a folder with a wrong one, files of other names, and nothing.
    p = verify("--candidate", f"{work}/all/good.py", "--json")
    v = json.loads(p.stdout) if p.stdout else {}
    check("a genuine one: exit status 0 and one object",
          p.returncode == 0 and v.get("verdict") == "genuine" and "candidate" not in v, p.stdout + p.stderr)
    p = verify("--candidate", f"{work}/all", "--json")
    found = {v["candidate"]: v["verdict"] for v in map(json.loads, p.stdout.splitlines())}
    check("a folder: each .py file in it, and the status of the worst",
          p.returncode == 1 and found == {f"{work}/all/good.py": "genuine", f"{work}/all/wrong.py": "wrong"},
          p.stdout + p.stderr)
    p = verify("--candidate", f"{work}/none")
    check("a folder without candidates is wrong usage", p.returncode == 2 and "no .py file" in p.stderr, p.stderr)
    # The audit judges the task alone.
    p = verify("--audit")
    a = json.loads(p.stdout) if p.stdout else {}
    check("--audit of a task that tells right from wrong",
          p.returncode == 0 and a.get("runs") is True and a.get("discriminates") is True, p.stdout + p.stderr)
    p = verify("--audit", task="constant.py")
    a = json.loads(p.stdout) if p.stdout else {}
    check("--audit of one whose outputs are constants",
          p.returncode == 1 and a.get("runs") is True and a.get("discriminates") is False, p.stdout + p.stderr)
    done()


main()
