"""hone tune by a GPU's times: the point that is fastest there is chosen, whatever the cost model
says. The GPU is the vm under another name, and a kernel takes a microsecond for each warp of a
program (tests/verify/pretend_gpu.c). timeout: 600"""
import json, os, sys

sys.path.append("tests")
from command import check, done, run, warm_workers, work_folder

work = work_folder("tune-gpu")
build = os.path.abspath(os.environ.get("BUILD", "build/release"))
pretend = f"{build}/tests/verify/pretend"
TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(6, 200)]


def get_init_inputs():
    return []
"""
KERNEL = """import torch
import torch.nn as nn
import triton
import triton.language as tl

# tune: BLOCK = 64 | 256
# tune: WARPS = 1 | 2 | 8
BLOCK = 64
WARPS = 2


@triton.jit
def timed_kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(p + i, mask=i < n) * 2.0, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        timed_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, o, x.numel(), B=BLOCK, num_warps=WARPS)
        return o
"""

if not os.path.exists(f"{pretend}/hone-runner"):
    print("1..0 # SKIP the pretended runner is not built: make test builds it")
    sys.exit(0)
# The program that takes the pretended runner lies beside it.
hone = f"{pretend}/hone-tune"
if os.path.exists(hone):
    os.unlink(hone)
os.link(f"{build}/hone", hone)
warm_workers(has_timer=True)
for name, text in (("task", TASK), ("timed", KERNEL), ("untimed", KERNEL.replace("timed_", "plain_"))):
    with open(f"{work}/{name}.py", "w") as f:
        f.write(text)


def tune(kernel, *more):
    return run(hone, "tune", "--task", f"{work}/task.py", "--candidate", f"{work}/{kernel}.py",
               "--num_correct_trials", "1", "--store", f"{work}/cache.db", "--json", *more)


p = tune("timed", "--verify_device", "cuda")
s = json.loads(p.stdout) if p.returncode == 0 else {}
tried = {r["point"]: r["cost_s"] for r in s.get("tried", [])}
check("times are the GPU's", s.get("times") == "measured" and s["gpu"] == "H200" and len(tried) == 6
      and all(abs(t * 1e6 / int(point.split("WARPS=")[1]) - 1) < 1e-6 for point, t in tried.items()),
      p.stdout + p.stderr)
check("the fastest there is the best", s.get("best", "").endswith("WARPS=1") and s["best_s"] == min(tried.values())
      and abs(s["speedup"] - 2) < 1e-6, p.stdout)
p = tune("timed")
q = json.loads(p.stdout) if p.returncode == 0 else {}
check("the cost model's times are another search, in the store too", q.get("times") == "predicted"
      and q["cached"] is False and {r["point"]: r["cost_s"] for r in q["tried"]} != tried, p.stdout + p.stderr)
p = tune("untimed", "--verify_device", "cuda")
check("a kernel that the GPU has no time for is refused", p.returncode == 1 and "has a time" in p.stderr, p.stderr)
done()
