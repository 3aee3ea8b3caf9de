"""What `hone verify` tells a person, whole: every line of a verdict with times, counters and the
sanitizer's findings, word for word, and each number where the record in JSON has it too. The GPU is
the vm under another name (tests/verify/pretend_gpu.c). timeout: 300"""
import json, os, re, stat, sys

sys.path.append("tests")
from command import check, done, run, warm_workers, work_folder

work = work_folder("texts")
build = os.path.abspath(os.environ.get("BUILD", "build/release"))
pretend = f"{build}/tests/verify/pretend"
TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.where(x > 1.5, x * 1.7 + 0.3, x * 0.7)


def get_inputs():
    return [torch.rand(6, 200)]


def get_init_inputs():
    return []
"""
KERNEL = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"B": 128}, num_warps=8), triton.Config({"B": 64}, num_warps=2)], key=["n"])
@triton.jit
def timed_kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(p + i, mask=i < n)
    tl.store(o + i, tl.where(x > 1.5, x * 1.7 + 0.3, x * 0.7), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        timed_kernel[lambda m: (triton.cdiv(x.numel(), m["B"]),)](x, o, x.numel())
        return o
"""
# Tools that are none: the first starts the runner and has found nothing, each of the other's
# counters is another number.
SANITIZER = "#!/bin/sh\necho '========= ERROR SUMMARY: 0 errors'\nshift 6\nexec \"$@\"\n"
PROFILER = """#!/bin/sh
metrics=$9
shift 9
"$@"
echo '"ID","Kernel Name","Metric Name","Metric Value"'
n=1700
for m in $(echo "$metrics" | tr , ' '); do n=$((n + 1313)) && echo "\\"0\\",\\"timed_kernel\\",\\"$m\\",\\"$n\\""; done
"""

if not os.path.exists(f"{pretend}/hone-runner"):
    print("1..0 # SKIP the pretended runner is not built: make test builds it")
    sys.exit(0)
# The program that takes the pretended runner lies beside it.
hone = f"{pretend}/hone-texts"
if os.path.exists(hone):
    os.unlink(hone)
os.link(f"{build}/hone", hone)
warm_workers(has_timer=True)
os.environ["PATH"] = f"{os.path.abspath(work)}:{os.environ['PATH']}"
for name, text in (("task.py", TASK), ("kernel.py", KERNEL), ("compute-sanitizer", SANITIZER), ("ncu", PROFILER)):
    with open(f"{work}/{name}", "w") as f:
        f.write(text)
    os.chmod(f"{work}/{name}", stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)


def verify(*more):
    return run(hone, "verify", "--task", f"{work}/task.py", "--candidate", f"{work}/kernel.py", "--device", "cuda",
               "--references", "eager", "--sanitize", "--profile", "--seed", 5, "--threads", 1,
               "--store", f"{work}/kept.db", *more, expect=0)




def counted(n, thing, things=None):
    return f"{n} {thing if n == 1 else things or thing + 's'}"


def expected(v):
    """The lines of a verdict, from its record."""
    d = v["device"]
    us = lambda seconds, form=".2f": f"{seconds * 1e6:{form}} us"
    yield f"{work}/kernel.py: genuine"
    yield f"  {v['detail']}"
    yield (f"  cost model: {us(v['cost_s'], '.3g')}; PyTorch's operators {us(v['eager_cost_s'], '.3g')} (speedup "
           f"{v['speedup_eager']:.2f}), fused {us(v['fused_cost_s'], '.3g')} (speedup {v['speedup_fused']:.2f}); "
           f"{counted(v['launches'], 'launch', 'launches')}, {counted(v['programs'], 'program')}, "
           f"{counted(v['bytes'], 'byte')}")
    yield (f"  {counted(v['trials'], 'trial')}, {v['trials_failed']} failed; scaled error {v['error_max']:.3g}, bound "
           f"{v['tolerance']:.3g}")
    yield f"  on NaN, infinities and denormals (not judged): {v['edge']}"
    c = v["coverage"]
    yield (f"  sides of comparisons on data: {c['taken']} of {c['sides']} taken, after "
           f"{counted(c['guided'], 'guided trial')}")
    yield (f"  {d['name']}, driver for CUDA 13.0: {counted(d['trials'], 'trial')}, {d['trials_failed']} failed; "
           f"scaled error {d['error_max']:.3g}; repeats: {d['repeat']}; "
           f"{counted(d['disagreements'], 'disagreement')} with the vm")
    for t in d["tuned"]:
        yield (f"  autotuner of {t['label']}: configuration {t['chosen'] + 1} of {t['configs']}, {us(t['chosen_s'])}; "
               f"{us(t['first_s'])} with the first")
    yield (f"  on the GPU {us(d['time_s'])} with cold caches (95 %: {d['time_low_s'] * 1e6:.2f} to "
           f"{d['time_high_s'] * 1e6:.2f}; {d['timed']} replays; nothing: {us(d['empty_s'])}); wall clock "
           f"{us(d['wall_s'])}, warm {us(d['paper_s'])}; {d['memory_bytes'] / 2**20:.1f} MiB")
    yield f"  eager: {d['references']['eager']['why']}"
    yield "  compute-sanitizer: " + ", ".join(f"{k} {counted(d['sanitizer'][k], 'error')}"
                                             for k in ("memcheck", "racecheck", "initcheck"))
    # Counters, then what the vm counted, line by line.
    for p in d["profiles"]:
        yield (f"  {p['kernel']}: {p['time_ns'] * 1e-3:.2f} us; DRAM {p['dram_read_bytes'] * 1e-6:.3f} MB read, "
               f"{p['dram_write_bytes'] * 1e-6:.3f} written ({p['dram_use']:.0f} % of its rate); L2 "
               f"{p['l2_bytes'] * 1e-6:.3f} MB; {p['registers']:.0f} registers; {p['occupancy']:.0f} % of the warps, "
               f"{p['sm_use']:.0f} % of the multiprocessors' rate")
        yield "    cycles waited for an instruction: " + ", ".join(
            f"{name} {p['stall_' + key]:.1f}" for name, key in (("memory", "memory"), ("shared memory", "shared"),
            ("barriers", "barrier"), ("arithmetic", "math"), ("full queues", "queue"), ("fixed latency", "wait")))
    yield f"  all launches {us(sum(p['time_ns'] for p in d['profiles']) * 1e-9)}; predicted {us(v['cost_s'])}"
    yield "  by the vm, line by line: bytes, sectors of 32 bytes, operations"
    source = KERNEL.split("\n")
    for row in v["lines"]:
        yield (f"    {row['bytes']:12} {row['sectors']:10} {row['flops']:12}{row['line']:6} | "
               f"{source[row['line'] - 1]}")


said = verify().stdout.split("\n")
v = json.loads(verify("--json").stdout or "{}")
check("the record is the verdict that was printed: genuine, with a choice, a profile and no findings", v.get("cached")
      is True and v["verdict"] == "genuine" and v["error_max"] > 0 and v["coverage"]["guided"] > 0
      and len(v["device"]["tuned"]) == len(v["device"]["profiles"]) == 1 and len(v["lines"]) == 2, v)
want = list(expected(v)) if v.get("cached") else []
for i, line in enumerate(want):
    check(f"line {i + 1}: {re.sub('[0-9.]+', '#', line)[:50].strip()}", said[i:i + 1] == [line], (said[i:i + 1], line))
check("the last line: the sandbox and the seconds, and no further one",
      re.fullmatch(r"  sandbox \w+; \d+\.\d{3} s", "\n".join(said[len(want):-1])) and said[-1] == "", said[len(want):])
done()
