"""hone verify --gpu: kernels are compiled for the card that is named, and held to its shared
memory. timeout: 300

A product whose tiles wait in shared memory, so many stages of 32 KiB (Hopper keeps one more of them
than the others do): what one card runs, a smaller one refuses by its name. And numbers of 8 bits,
which cards before 8.9 do not have. HONE_GPU_DEVICE=cuda:0: with that GPU, which stands for the
cards (tests/gpu/test_cards.sh)."""
import json, os, re, sys

sys.path.append("tests")
from command import check, done, hone, run, warm_workers, work_folder

work = work_folder("verify_cards")
GPU = os.environ.get("HONE_GPU_DEVICE")
TASK = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)

def get_inputs():
    return [torch.randn(128, 512, dtype=torch.float16), torch.randn(512, 128, dtype=torch.float16)]

def get_init_inputs():
    return []
"""
CANDIDATE = """import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for k0 in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + k0 + k[None, :])CAST
        y = tl.load(b + (k0 + k[:, None]) * N + n[None, :])CAST
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))

class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty((128, 128), dtype=a.dtype, device=a.device)
        product[(1,)](a, b, c, 512, M=128, N=128, BK=64, num_warps=8, num_stages=STAGES)
        return c
"""


def verdicts(card):
    """Of all candidates, by name."""
    p = run(hone, "verify", "--task", f"{work}/task.py", "--candidate", f"{work}/all", "--gpu", card, "--threads", 1,
            "--num_correct_trials", 1, "--seed", 3, "--json", *(["--device", GPU, "--skip_timing"] if GPU else []))
    rows = [json.loads(line) for line in p.stdout.splitlines() if line.startswith("{")]
    return {os.path.basename(r.get("candidate", "")).removesuffix(".py"): r for r in rows}


def needed(v):
    """Bytes of shared memory that a refusal names, and the limit."""
    m = re.search(r"required (\d+), hardware limit (\d+)", v.get("detail") or "")
    return tuple(int(n) for n in m.groups()) if m else None


warm_workers()
os.mkdir(f"{work}/all")
with open(f"{work}/task.py", "w") as f:
    f.write(TASK)
for name, stages, cast in (("stages3", 3, ""), ("stages5", 5, ""), ("stages7", 7, ""),
                           ("fp8", 3, ".to(tl.float8e4nv)")):
    with open(f"{work}/all/{name}.py", "w") as f:
        f.write(CANDIDATE.replace("STAGES", str(stages)).replace("CAST", cast))
KIB = 1 << 10
got = {card: verdicts(card) for card in ("h200", "a100", "rtx4090")}
is_genuine = lambda card, name: got[card].get(name, {}).get("verdict") == "genuine"
for card, name, most in (("a100", "A100", 163 * KIB), ("rtx4090", "RTX 4090", 99 * KIB)):
    v = got[card].get("stages7", {})
    check(f"192 KiB of shared memory are refused by name for the {card}", v.get("reason") == "out-of-resources"
          and f"does not fit on the {name}" in v["detail"] and needed(v) == (192 * KIB, most), v)
check("on an H200 the same kernel may have its 224 KiB", is_genuine("h200", "stages7"), got["h200"])
check("128 KiB run on an A100", is_genuine("a100", "stages5"), got["a100"])
v = got["rtx4090"].get("stages5", {})
check("and not on an RTX 4090", v.get("reason") == "out-of-resources" and needed(v) == (128 * KIB, 99 * KIB), v)
check("which runs 64 KiB", is_genuine("rtx4090", "stages3"), got["rtx4090"])
v = got["a100"].get("fp8", {})
check("numbers of 8 bits that an A100 lacks are refused by message",
      v.get("verdict") == "invalid" and "fp8e4nv" in (v.get("detail") or ""), v)
done()
