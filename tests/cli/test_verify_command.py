"""hone verify: a folder of candidates, exit statuses, --json, --audit. The first command and one
whose Python has no torch start their workers as a user's do, the others have warm ones.
timeout: 300"""
import json, os, shutil, sys

sys.path.append("tests")
from command import check, done, hone, run, warm_workers, work_folder

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
    return run(hone, "verify", "--task", f"{work}/{task}", "--threads", "2", "--num_correct_trials", "1", "--seed", "3",
               *more, expect=expect)


def main():
    run("mkdir", "-p", f"{work}/all", f"{work}/none")
    write("task.py", TASK.replace("EXPRESSION", "torch.relu(x)"))
    write("constant.py", TASK.replace("EXPRESSION", "x * 0 + 1"))
    write("all/good.py", CANDIDATE.replace("BOUND", "0.0"))
    write("all/wrong.py", CANDIDATE.replace("BOUND", "0.5"))
    write("all/slow.py", CANDIDATE.replace("BOUND", "0.0") + "import time\ntime.sleep(1)\n")
    shutil.copy(f"{work}/all/wrong.py", os.fsencode(f"{work}/all/caf") + b"\xe9.py")
    write("half.py", CANDIDATE.replace("BOUND", "0.0").replace("triton.cdiv(x.numel(), 256)", "1").replace("B=256",
                                                                                                            "B=128"))
    write("name.py", "nowhere\n" + CANDIDATE)
    write("all/py", "a name that only ends like one")
    write("all/notes.pyc", "no candidate")
    write("none/readme.txt", "no candidate")
    # One candidate, then a folder with a wrong one, files of other names, and nothing.
    p = verify("--candidate", f"{work}/all/good.py", "--json")
    v = json.loads(p.stdout) if p.stdout else {}
    check("a genuine one: exit status 0 and one object",
          p.returncode == 0 and v.get("verdict") == "genuine" and "candidate" not in v, p.stdout + p.stderr)
    warm_workers()
    p = verify("--candidate", f"{work}/all", "--json")
    found = [(v["candidate"], v["verdict"]) for v in map(json.loads, p.stdout.splitlines())]
    named = [(f"{work}/all/caf\ufffd.py".replace("\ufffd", "?"), "wrong"), (f"{work}/all/good.py", "genuine"),
             (f"{work}/all/slow.py", "genuine"), (f"{work}/all/wrong.py", "wrong")]
    check("a folder: each .py file in it in the order of names, and the status of the worst",
          p.returncode == 1 and found == named, p.stdout + p.stderr)
    p = verify("--candidate", f"{work}/all/wrong.py")
    check("what is wrong is told without what else could have been tried, and without figures that are none",
          p.stdout.startswith(f"{work}/all/wrong.py: wrong (mismatch") and "sides of" not in p.stdout
          and "nan" not in p.stdout, p.stdout)
    p = verify("--candidate", f"{work}/half.py")
    check("elements that nobody wrote are counted and the first is named", p.returncode == 1
          and "172 of the 300 elements of output 0 were never written, the first at [128]\n  1 trial, 1 failed\n"
          in p.stdout, p.stdout)
    p = verify("--candidate", f"{work}/name.py")
    check("a record's candidate.py is the file's own path on the terminal",
          f"  {work}/name.py:1: NameError: name 'nowhere' is not defined\n" in p.stdout, p.stdout)
    p = verify("--candidate", f"{work}/all/good.py", "--emit", f"{work}/absent/out.py")
    check("an --emit that cannot be written is refused before anything is judged",
          p.returncode == 2 and not p.stdout and "absent/out.py: cannot write" in p.stderr, p.stdout + p.stderr)
    # A Python without torch: nobody is judged, and nothing is made up.
    write("python", "#!/bin/sh\nexec /usr/bin/python3 -S \"$@\"\n")
    os.chmod(f"{work}/python", 0o755)
    warm, os.environ["HONE_PYTHON"] = os.environ["HONE_PYTHON"], f"{work}/python"
    p = verify("--candidate", f"{work}/all/good.py")
    os.environ["HONE_PYTHON"] = warm
    check("a Python without torch is an infra that says so, and no more",
          p.returncode == 3 and "No module named 'torch'" in p.stdout and "hone doctor" in p.stdout
          and len(p.stdout.splitlines()) == 3 and not p.stderr, p.stdout + p.stderr)
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
