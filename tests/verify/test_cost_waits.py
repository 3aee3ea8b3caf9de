"""Waiting earns nothing: a kernel whose programs go one after another, or that waits in
assembly, is predicted to take the time of it, beside its twin a line apart that only meets.
Where nobody can tell how long a wait is there is no time and no speedup. Verdicts are what they
are without. timeout: 300"""
import json, os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
sys.path[:0] = ["tests"]
from command import check, done, hone, run, warm_workers, work_folder

warm_workers()
WORK = work_folder("cost_waits")
IMPORTS = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"
TASK = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(0)

def get_inputs():
    return [torch.randn(512, 64)]

def get_init_inputs():
    return []
"""
HEAD = IMPORTS + """
@triton.jit
def kernel(x, y, turns, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (i[None, :] < N)
    s = tl.sum(tl.load(x + rows[:, None] * N + i[None, :], mask=mask, other=0.0), 0)
"""
ADD = """
    s += tl.load(y + i, mask=i < N)
    tl.store(y + i, s, mask=i < N)
    tl.debug_barrier()
"""
HOST = """
class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        y = torch.zeros(N, device=x.device)
        turns = torch.zeros(M + 1, dtype=torch.int32, device=x.device)
        kernel[(triton.cdiv(M, 2),)](x, y, turns, M, N, ROWS=2, BLOCK=64, num_warps=1)
        return y
"""
MEET = "    tl.atomic_add(y + i, s, mask=i < N)\n"
# One program after another, by whatever says whose turn it is.
TURNS = {
    "a lock": ("    while tl.atomic_cas(turns, 0, 1) == 1:\n        pass\n", "    tl.atomic_xchg(turns, 0)\n"),
    "a chain of flags": ("    if pid > 0:\n        while tl.atomic_add(turns + pid - 1, 0) == 0:\n            pass\n",
                         "    tl.atomic_xchg(turns + pid, 1)\n"),
    "a chain that loads look at":
        ("    if pid > 0:\n        while tl.load(turns + pid - 1, volatile=True) == 0:\n            pass\n",
         "    tl.atomic_xchg(turns + pid, 1)\n"),
    "a ticket": ("    t = tl.atomic_add(turns, 1)\n    while tl.atomic_add(turns + M, 0) != t:\n        pass\n",
                 "    tl.atomic_add(turns + M, 1)\n"),
}
# Who meets, and does not wait.
MEETINGS = {
    "the last one finishes": MEET + "    if tl.atomic_add(turns, 1) == tl.num_programs(0) - 1:\n"
                                    "        tl.store(turns + M, 1)\n",
    "a queue": """
    at = tl.atomic_add(turns, 1)
    s = tl.zeros([BLOCK], tl.float32)
    while at * ROWS < M:
        rows = at * ROWS + tl.arange(0, ROWS)
        s += tl.sum(tl.load(x + rows[:, None] * N + i[None, :],
                            mask=(rows[:, None] < M) & (i[None, :] < N), other=0.0), 0)
        at = tl.atomic_add(turns, 1)
""" + MEET,
}


def verdict(name, task, candidate):
    folder = os.path.join(WORK, "".join(c if c.isalnum() else "_" for c in name))
    os.makedirs(folder, exist_ok=True)
    for file, text in (("task.py", task), ("candidate.py", candidate)):
        with open(os.path.join(folder, file), "w") as f:
            f.write(text)
    said = run(hone, "verify", "--task", f"{folder}/task.py", "--candidate", f"{folder}/candidate.py", "--json",
               "--threads", "1", "--seed", "7", expect=0)
    return json.loads(said.stdout.splitlines()[-1])


twin = verdict("twin", TASK, HEAD + MEET + HOST)
check("programs that meet at a sum are genuine and have a time", twin["cost_s"] > 0 and not twin["not_predicted"], twin)
# 256 programs: each waits at least for a look, what is added to, and the word that it is there.
LEAST_S = 256 * 0.3e-6
for name, (before, after) in TURNS.items():
    v = verdict(name, TASK, HEAD + before + ADD + after + HOST)
    check(f"{name}: genuine, and takes its turns' time",
          v["cost_s"] > LEAST_S and v["cost_s"] > 10 * twin["cost_s"] and v["limit"] == "latency",
          [v["cost_s"], twin["cost_s"], v["limit"]])
    check(f"{name}: so it earns less than the twin", v["speedup_fused"] < twin["speedup_fused"] / 10,
          [v["speedup_fused"], twin["speedup_fused"]])
for name, body in MEETINGS.items():
    v = verdict(name, TASK, HEAD + body + HOST)
    check(f"{name}: nobody waits", 0 < v["cost_s"] < 2 * twin["cost_s"], [v["cost_s"], twin["cost_s"]])

# Assembly.
DOUBLE = TASK.replace("x.sum(0)", "x + x")
TEXT = IMPORTS + """
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    w = tl.inline_asm_elementwise("{text}add.f32 $0, $1, $1;", "=f,f", [v], dtype=tl.float32, is_pure=False, pack=1)
    {more}
    tl.store(y + i, w, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""
plain = verdict("assembly", DOUBLE, TEXT.format(text="", more=""))
asleep = verdict("asleep", DOUBLE, TEXT.format(text="nanosleep.u32 5000; ", more=""))
check("a sleep takes as long as it says", asleep["cost_s"] - plain["cost_s"] > 4e-6,
      [asleep["cost_s"], plain["cost_s"]])
is_open = verdict("a sleep that a register says", DOUBLE,
                  TEXT.format(text="{ .reg .u32 t; mov.b32 t, $1; nanosleep.u32 t; } ", more=""))
check("as long as a register says is not predicted",
      is_open["cost_s"] is None and is_open["speedup_fused"] is None and "sleeps" in is_open["not_predicted"], is_open)
printed = verdict("prints", DOUBLE, TEXT.format(text="", more='tl.device_print("n", n)'))
check("nor is what prints", printed["cost_s"] is None and "prints" in printed["not_predicted"], printed)
for words, is_predicted in ("-O0", False), ("-O3 -w", True):
    v = verdict(f"ptxas is told {words}", DOUBLE,
                TEXT.format(text="", more="").replace("BLOCK=128)", f"BLOCK=128, ptx_options={words!r})"))
    check(f"ptxas is told {words}: genuine, and {'predicted' if is_predicted else 'nobody knows the time'}",
          (v["cost_s"] is not None) == is_predicted == (v["not_predicted"] == "") and
          (is_predicted or "ptx_options" in v["not_predicted"]), [v["cost_s"], v["not_predicted"]])
done()
