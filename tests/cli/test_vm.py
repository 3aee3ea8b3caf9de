"""hone vm: scripts run on the vm as they would on a GPU; faults are named like a compiler's, with
the exit status."""
import json, os, shutil, subprocess, sys

sys.path.append("tests")
from command import check, done, hone, run, warm_workers, work_folder

work = work_folder("vm_command")

ADD = """
import sys
import torch, triton, triton.language as tl

@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(o + i, a + b, mask=i < LIMIT)

"""
PLAIN = ADD.replace("LIMIT", "n") + """
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def copy(d, o, B: tl.constexpr):
    v = d.load([B, 0])
    i = tl.arange(0, B)
    tl.store(o + i[:, None] * B + i[None, :], v)

@triton.jit
def say(x):
    tl.device_print("half ", tl.load(x).to(tl.float16))

@triton.jit
def through(pointers, n, B: tl.constexpr):
    p = tl.load(pointers + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(p + i, tl.program_id(0) + i, mask=i < n)

x, y = torch.randn(1000), torch.randn(1000)
o = torch.full((1002,), 7.0)
add[(4,)](x, y, o[1:], 1000, B=256)
assert torch.equal(o[1:-1], x + y) and o[0] == 7 and o[-1] == 7
m = torch.randn(32, 16)
block = torch.empty(16, 16)
copy[(1,)](TensorDescriptor.from_tensor(m, [16, 16]), block, B=16)
assert torch.equal(block, m[16:])
ragged = m[:20]
for padding in ("zero", "nan"):
    copy[(1,)](TensorDescriptor.from_tensor(ragged, [16, 16], padding), block, B=16)
    beyond = block[4:].isnan() if padding == "nan" else block[4:] == 0
    assert torch.equal(block[:4], ragged[16:]) and beyond.all(), padding
parts = [torch.zeros(5), torch.zeros(5)]
through[(2,)](torch.tensor([p.data_ptr() for p in parts]), 5, B=8)
assert parts[1].tolist() == [1, 2, 3, 4, 5]
say[(2,)](torch.tensor([1.5]))
kernel = add.warmup(x, y, o, 1000, B=256, grid=(1,))
assert "tt.store" in kernel.asm["ttir"]
try:
    add[(4,)](x, y, o, 1000, B=256, no_such_option=1)
except KeyError:
    print("sum", round(float(o[1:-1].sum() - (x + y).sum())), sys.argv[1:])
    sys.exit(3)
"""
RACE = """
import torch, triton, triton.language as tl

@triton.jit
def fold(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(o + i % 32, v + tl.program_id(0), mask=i < n)

fold[(4,)](torch.randn(128), torch.zeros(128), 128, B=32)
"""
FAULT = ADD.replace("LIMIT", "n + 1") + """
x, y, o = torch.randn(1000), torch.randn(1000), torch.empty(1010)[5:1005]
add[(4,)](x, y, o, 1000, B=256)
print("inside the storage")
add[(4,)](x, y, torch.empty(1000), 1000, B=256)
print("not reached")
"""
CAUGHT = FAULT.replace("add[(4,)](x, y, torch.empty",
                       "try: add[(4,)](x, y, torch.empty").replace('print("not reached")',
                                                                   'except Exception: print("caught")')
# A little beyond the end lies in the 2 MiB that PyTorch's allocator for CUDA reserves; a million
# elements do not.
BEYOND = (ADD.replace("LIMIT", "n").replace("mask=i < n)\n    b = ", "mask=i < n)\n    b = tl.where(i < n, 0.0, "
                                            "tl.load(x + n + AHEAD + i)) + ") + """
x, y, o = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
add[(4,)](x, y, o, 1000, B=256)
assert torch.equal(o, x + y)
print("went on")
""")
NVIDIA_SMI = """
import subprocess
import triton
assert triton.testing.nvsmi(["clocks.max.sm", "clocks.max.memory"]) == [1980, 3125]
memory = subprocess.check_output(["nvidia-smi", "--query-gpu=memory.total,name"], text=True)
assert memory == "143155 MiB, NVIDIA H200\\n"
"""
UNLOWERED = """
import torch, triton, triton.language as tl

@triton.jit
def widen(x, y):
    tl.store(y + tl.arange(0, 64), tl.load(x + tl.arange(0, 64)).to(tl.float64))

x = torch.zeros(64, device="cuda").to(torch.float8_e4m3fn)
widen[(1,)](x, torch.empty(64, device="cuda", dtype=torch.float64))
"""
REFUSED = """
import torch, triton, triton.language as tl

@triton.jit
def assembly(o):
    tl.store(o, tl.inline_asm_elementwise("ld.global.b32 $0, [$1];", "=r,l", [o], dtype=tl.int32, is_pure=True, pack=1))

assembly[(1,)](torch.zeros(1, dtype=torch.int32))
"""
SHIM = """
import torch, triton, triton.language as tl
from torch.amp import custom_fwd, custom_bwd

calls = []

@triton.autotune(configs=[triton.Config({"B": 16}), triton.Config({"B": 1024}, num_warps=8)], key=["n"],
                 reset_to_zero=["count"])
@triton.heuristics({"EVEN": lambda a: a["n"] % a["B"] == 0})
@triton.jit
def scale(x, o, count, n, factor, B: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) * factor, mask=m)
    tl.atomic_add(count, 1)

class Scale(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(ctx, x, factor):
        assert x.is_cuda and x.device.type == "cuda" and x.device == torch.device("cuda", 0)
        o, count, n = torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device), x.numel()
        with torch.cuda.device(x.device):
            scale[lambda meta: (triton.cdiv(n, meta["B"]),)](x, o, count, n, factor)
        ctx.factor = factor
        calls.append(count.item())
        return o

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, g):
        return g * ctx.factor, None

assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 132
assert triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"] == 132
x = torch.randn(50000, device="cuda", requires_grad=True)
y = Scale.apply(x, 3.0)
y.sum().backward()
assert torch.equal(y, x * 3) and torch.equal(x.grad, torch.full((50000,), 3.0).cuda())
# 16 elements a program are more programs and sectors for the same bytes
assert scale.best_config.kwargs["B"] == 1024, scale.best_config
assert calls[0] == triton.cdiv(50000, 1024), calls                  # reset_to_zero undid what the trials counted
on_host = torch.zeros(4)
on_device = on_host.cuda()
on_device += 1
assert on_host.sum() == 0 and on_device.cpu().sum() == 4
assert on_device.type() == "torch.cuda.FloatTensor"
assert on_device.type("torch.cuda.HalfTensor").dtype == torch.float16
assert on_device.type(torch.int32).dtype == torch.int32
assert torch.nn.Linear(4, 4).cuda().weight.is_cuda and torch.zeros(2, device=torch.device("cuda:0")).is_cuda
with torch.autocast("cuda", dtype=torch.bfloat16):
    assert (torch.ones(2, 2).cuda() @ torch.ones(2, 2).cuda()).dtype == torch.bfloat16
fast, slow = (triton.testing.do_bench(lambda: Scale.apply(t, 2.0))
              for t in (x.detach(), torch.zeros(4_000_000, device="cuda")))
source, target, graph = torch.ones(100, device="cuda"), torch.zeros(100, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    target += Scale.apply(source, 2.0) + 1
    later = target * 10
assert target.sum() == 0                                            # a capture computes nothing
source.fill_(4)
graph.replay(); graph.replay()
assert target.tolist() == [18.0] * 100 and later.tolist() == [180.0] * 100
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record(); Scale.apply(x, 2.0); end.record(); torch.cuda.synchronize()
assert 0 < fast < slow and 0 < start.elapsed_time(end)
big = torch.zeros(1 << 24, device="cuda")
# 64 MiB read and 64 written at 4.8 TB/s, nine tenths of which are reached
eager = triton.testing.do_bench(lambda: big + big)
assert 0.028 < eager < 0.038, eager
# what Triton's launcher and its loader refuse on a GPU
for grid, warps, words in (((100 / 64,), 4, "grid[0] is 1.5625"), ((1,), 64, "threads, Required: 2048")):
    try:
        scale.fn.fn[grid](big, big, big, 100, 2.0, B=64, EVEN=False, num_warps=warps)
    except (TypeError, triton.runtime.errors.OutOfResources) as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
print("fine")
"""

# x * x needs more bits than a float has: what fp32 rounds off is left only where product and
# difference are rounded together.
CONTRACTION = """
import torch, triton, triton.language as tl

@triton.jit
def residue(x, o):
    v = tl.load(x)
    tl.store(o, v * v - tl.load(x + 1))

x = torch.tensor([1 + 2**-23, 1 + 2**-22])
residue[(1,)](x, x[1:])
print(x[1].item() == 2**-46, x[1].item() == 0)
"""


INTEGERS = """
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def sums(x, total, s, p, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(total, tl.sum(v, 0))
    tl.store(s + i, tl.cumsum(v, 0))
    tl.store(p + i, tl.cumprod(v, 0))

@triton.jit
def total_of(x, total, N: tl.constexpr):
    tl.store(total, tl.sum(tl.load(x + tl.arange(0, N)), 0))

@triton.jit
def tiles(x, y, M, N, B: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    b = tl.make_tensor_descriptor(y, [M, N], [N, 1], [B, B])
    b.store([B, B], a.load([B, B]) + 1)

@triton.jit
def host_tiles(a, b):
    b.store([16, 16], a.load([16, 16]) + 1)

triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
for n in (1, 16, 1024):
    x = torch.randint(1, 3, (n,), dtype=torch.int32) if n < 32 else torch.ones(n, dtype=torch.int32)
    total, s, p = torch.zeros(1, dtype=torch.int32), torch.zeros_like(x), torch.zeros_like(x)
    sums[(1,)](x, total, s, p, N=n)
    assert total.item() == x.sum() and torch.equal(s, x.cumsum(0).int()) and torch.equal(p, x.cumprod(0).int()), n
for dtype in (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64):
    x = (torch.arange(1024) % 100).reshape(32, 32).to(dtype)
    for is_host in (False, True):
        y = torch.zeros(32, 32, dtype=torch.int64).to(dtype)
        if is_host:
            host_tiles[(1,)](TensorDescriptor.from_tensor(x, [16, 16]), TensorDescriptor.from_tensor(y, [16, 16]))
        else:
            tiles[(1,)](x, y, 32, 32, B=16)
        assert torch.equal(y[16:, 16:].long(), x[16:, 16:].long() + 1), (dtype, is_host)
print("sums and descriptors")
if OVERFLOWS:
    total_of[(1,)](torch.full((16,), 2**30, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), N=16)
"""
BEFORE = """
import torch, triton, triton.language as tl

@triton.jit
def shift(a, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i - 64, tl.load(y + i) + tl.load(a + i))

a, x, y = (torch.zeros(256) for _ in range(3))
shift[(1,)](a, x, y, N=16)
"""
LIBRARIES = """
import torch, triton.testing
from triton._C.libtriton import nvidia

blas = nvidia.cublas.CublasLt(torch.empty(32 << 20, device="cuda", dtype=torch.uint8))
a, b = torch.randn(32, 48, device="cuda").half(), torch.randn(64, 48, device="cuda").half()
c, d = torch.empty(32, 64, device="cuda", dtype=torch.half), torch.empty(32, 64, device="cuda", dtype=torch.half)
blas.matmul(a, b, c)
blas.gemm(a, b, c, d, 2.0, 1.0)
want = a.float() @ b.float().T
assert torch.equal(c, want.half()) and (d.float() - 2 * want - c.float()).abs().max() < 0.05
empty, zeros = (triton.testing.do_bench(lambda: make(1 << 24, device="cuda")) for make in (torch.empty, torch.zeros))
assert empty == 0 and zeros > 0.01, (empty, zeros)
print("products and times")
"""


def write(name, text):
    with open(f"{work}/{name}", "w") as f:
        f.write(text)
    return f"{work}/{name}"


def line_of(text, part):
    return next(i for i, line in enumerate(text.split("\n"), 1) if part in line)


def test_plain():
    p = run(hone, "vm", write("plain.py", PLAIN), "--cost", "a")
    check("a script gets its arguments and its own exit status; views, descriptors and pointers in memory work",
          p.returncode == 3 and p.stdout == "sum 0 ['--cost', 'a']\n", p.stdout + p.stderr)
    check("device_print goes to stderr, programs in order",
          p.stderr == "pid (0, 0, 0) idx () half: 1.500000\npid (1, 0, 0) idx () half: 1.500000\n", p.stderr)
    p = run(hone, "vm", "--cost", "--json", write("plain.py", PLAIN))
    kernels = {k["kernel"]: k for k in json.loads(p.stdout.splitlines()[-1])["kernels"]} if p.returncode == 3 else {}
    add = kernels.get("add", {"cost": {}, "lines": []})
    lines = {row["line"]: row for row in add["lines"]}
    check("--cost --json counts bytes by kernel and line",
          add["cost"].get("load_bytes") == 8000 and add["cost"].get("store_bytes") == 4000
          and lines.get(line_of(PLAIN, "a = tl.load"), {}).get("load_bytes") == 4000, p.stdout + p.stderr)


def test_costs():
    """The table that people read."""
    p = run(hone, "vm", "--cost", write("plain.py", PLAIN))
    lines = p.stdout.splitlines()
    load = next((line for line in lines if f"  line {line_of(PLAIN, 'a = tl.load')} " in line), "")
    check("--cost prints each line's text beside its counts", "4000" in load and "a = tl.load(" in load, p.stdout)
    check("--cost has no column of zeros", "load_bytes" in p.stdout and "dot_flops" not in p.stdout, p.stdout)
    with open("/dev/full", "w") as full:
        p = subprocess.run([hone, "vm", "--cost", write("nothing.py", "")], stdout=full, stderr=subprocess.PIPE,
                           text=True)
    check("costs that cannot be written are one line and status 1",
          p.returncode == 1 and "hone vm: cannot write to stdout: No space left" in p.stderr
          and "Traceback" not in p.stderr, p.stderr)


UNCOMPILED = """import torch, triton, triton.language as tl

@triton.jit
def most(x, o):
    tl.store(o, tl.max(tl.load(x + tl.arange(0, 4)), axis=1))

x = torch.zeros(4)
most[(1,)](x, x)
"""


def test_uncompiled():
    p = run(hone, "vm", write("uncompiled.py", UNCOMPILED))
    line, column = line_of(UNCOMPILED, "tl.max"), UNCOMPILED.splitlines()[4].index("tl.max")
    check("a kernel that does not compile is told like a compiler's message",
          p.returncode == 1 and p.stderr.startswith(f"{work}/uncompiled.py:{line}:{column}: error: invalid axis 1. ")
          and "Traceback" not in p.stderr and p.stderr.endswith(f"launched at {work}/uncompiled.py:8\n"), p.stderr)
    launch = "most[(1,)](x, x)"
    caught = UNCOMPILED.replace(launch, f"try:\n    {launch}\nexcept Exception as e:\n    print(type(e))")
    p = run(hone, "vm", write("caught.py", caught))
    check("a script may catch it", p.returncode == 0 and "CompilationError" in p.stdout and not p.stderr, p.stderr)


def test_faults():
    p = run(hone, "vm", write("fault.py", FAULT))
    where = f"{work}/fault.py:{line_of(FAULT, 'tl.store')}:"
    check("a store beyond a tensor's storage ends the script with 1",
          p.returncode == 1 and p.stdout == "inside the storage\n", p.stdout + p.stderr)
    check("the message has place, kernel, program, element, argument and what was allowed", all(part in p.stderr
        for part in (where, "error: out-of-bounds store", "tl.store(o + i", "in add, program (3, 0, 0), element 232",
                     "argument o: index 1000, allowed 0 to 999 (float32[1000])")) and "Traceback" not in p.stderr,
          p.stderr)
    p = run(hone, "vm", write("caught.py", CAUGHT))
    check("a fault that the script swallows fails it all the same",
          p.returncode == 1 and p.stdout.endswith("caught\n") and "1 launch" in p.stderr, p.stdout + p.stderr)
    p = run(hone, "vm", write("refused.py", REFUSED))
    check("an operation that is not supported is named",
          p.returncode == 1 and "'ld.global.b32' in inline assembly" in p.stderr and "refused.py" in p.stderr, p.stderr)


def test_checks():
    race = write("race.py", RACE)
    line = RACE[:RACE.index("tl.store")].count("\n") + 1
    p = run(hone, "vm", race)
    check("programs run in order hide a race", p.returncode == 0, p.stderr)
    p = run(hone, "vm", "--check", race)
    check("--check finds it at its line",
          p.returncode == 1 and f"race.py:{line}:" in p.stderr and "error: race" in p.stderr and "of o" in p.stderr,
          p.stderr)
    p = run(hone, "vm",
            "--check", write("note.py", RACE.replace("o + i % 32", "o + i").replace("mask=i < n", "mask=i < n + 1000")))
    check("notes are printed and fail nothing", p.returncode == 0 and "note: mask-always-true" in p.stderr, p.stderr)


def test_shim():
    p = run(hone, "vm", "--cuda-shim", write("shim.py", SHIM))
    check("a CUDA script with autograd, autotuning, heuristics, timing and autocast runs on the CPU",
          p.returncode == 0 and p.stdout == "fine\n", p.stdout + p.stderr)


def test_beyond():
    p = run(hone, "vm", "--cuda-shim", write("beyond.py", BEYOND.replace("AHEAD", "200")))
    check("a load in the rest of 2 MiB is named, goes on and fails the run",
          p.returncode == 1 and p.stdout == "went on\n" and "error: out-of-bounds load" in p.stderr
          and "index 1200, allowed 0 to 999" in p.stderr and "2 MiB" in p.stderr, p.stdout + p.stderr)
    p = run(hone, "vm", "--cuda-shim", "--cost", write("beyond.py", BEYOND.replace("AHEAD", "200")))
    check("costs are counted beside it, in no footprint",
          p.returncode == 1 and p.stdout.startswith("went on\n") and "  line " in p.stdout, p.stdout + p.stderr)
    p = run(hone, "vm", "--cuda-shim", "--cost", write("unlowered.py", UNLOWERED))
    check("what Triton compiles for no GPU, though its IR is right, is named",
          p.returncode == 1 and "widen: Triton does not compile it for H200" in p.stderr
          and "Traceback" not in p.stderr, p.stdout + p.stderr)
    p = run(hone, "vm", "--cuda-shim", write("beyond.py", BEYOND.replace("AHEAD", "1000000")))
    check("a load beyond them ends the script",
          p.returncode == 1 and p.stdout == "" and "error: out-of-bounds load" in p.stderr, p.stdout + p.stderr)
    for args in (["--cuda-shim", "--check"], []):
        p = run(hone, "vm", *args,
                write("beyond.py", (BEYOND if args else BEYOND.replace(', device="cuda"', "")).replace("AHEAD", "1")))
        check(f"so does one element beyond without the shim or with checks: {args}",
              p.returncode == 1 and p.stdout == "" and "error: out-of-bounds load" in p.stderr, p.stdout + p.stderr)


def test_contraction():
    script = write("contraction.py", CONTRACTION)
    check("product and difference are rounded apart", run(hone, "vm", script).stdout == "False True\n")
    check("--fma_contract rounds them once", run(hone, "vm", "--fma_contract", script).stdout == "True False\n")


def test_nvidia_smi():
    p = run(hone, "vm", "--cuda-shim", write("smi.py", NVIDIA_SMI))
    check("nvidia-smi answers as an H200's would", p.returncode == 0, p.stderr)


OF_A_CARD = """
import subprocess
import torch, triton, triton.language as tl

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def product(a, b, c, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    i, k = tl.arange(0, BLOCK), tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, 4 * DEPTH, DEPTH):
        total = tl.dot(tl.load(a + i[:, None] * 4 * DEPTH + start + k[None, :]),
                       tl.load(b + (start + k)[:, None] * BLOCK + i[None, :]), total)
    tl.store(c + i[:, None] * BLOCK + i[None, :], total)

p = torch.cuda.get_device_properties(0)
smi = subprocess.check_output(["nvidia-smi", "--query-gpu=name,memory.total,compute_cap"], text=True).strip()
x = torch.ones(1 << 22, device="cuda")
y = torch.empty_like(x)
ms = triton.testing.do_bench(lambda: double[(4096,)](x, y, x.numel(), BLOCK=1024))
assert (y == 2).all()
a, b, c = (torch.ones(128, 512, device="cuda").half(), torch.ones(512, 128, device="cuda").half(),
           torch.empty(128, 128, device="cuda"))
try:
    triton.testing.do_bench(lambda: product[(1,)](a, b, c, BLOCK=128, DEPTH=128, num_stages=3))
    fits = True
except triton.runtime.errors.OutOfResources:
    fits = False
target = triton.runtime.driver.active.get_current_target()
print(p.name, p.multi_processor_count, torch.cuda.get_device_capability(), target.arch, smi, fits, f"{ms:.4f}",
      sep="|")
"""


def test_card():
    script = write("card.py", OF_A_CARD)
    said = {}
    for card in ("H200", "a100", "rtx4090"):
        p = run(hone, "vm", "--cuda-shim", "--cost", "--gpu", card, script)
        check(f"a script as on the card {card}", p.returncode == 0, p.stderr)
        said[card] = p.stdout.splitlines()[0].split("|")
    check("each is told its own name, multiprocessors, capability and target",
          [row[:4] for row in said.values()] == [
              ["NVIDIA H200", "132", "(9, 0)", "90"], ["NVIDIA A100", "108", "(8, 0)", "80"],
              ["NVIDIA RTX 4090", "128", "(8, 9)", "89"]], said)
    check("nvidia-smi says the same", [row[4] for row in said.values()] == [
        "NVIDIA H200, 143155 MiB, 9.0", "NVIDIA A100, 81153 MiB, 8.0", "NVIDIA RTX 4090, 24210 MiB, 8.9"], said)
    check("what fits into the shared memory of two does not fit on the third",
          [row[5] for row in said.values()] == ["True", "True", "False"], said)
    times = [float(row[6]) for row in said.values()]
    check("the time is that of its memory: 4.8, 2.0 and 1.0 TB/s", times[0] < 0.6 * times[1] < 0.6 * times[2], said)
    p = run(hone, "vm", "--gpu", "h300", script)
    check("a card that is not in the table is refused with those that are",
          p.returncode == 2 and 'gpu: "h300" is not in the table of cards (H200, ' in p.stderr, p.stderr)


def test_usage():
    for args, part in ((["vm"], "no script"), (["vm", f"{work}/absent.py"], "no such script"),
                       (["vm", "--json", f"{work}/plain.py"], "--cost")):
        p = run(hone, *args)
        check(f"wrong usage is 2: {' '.join(args)[-40:]}", p.returncode == 2 and part in p.stderr, p.stderr)
    warm, os.environ["HONE_PYTHON"] = os.environ["HONE_PYTHON"], "/no/such/python"
    p = run(hone, "vm", f"{work}/plain.py")
    os.environ["HONE_PYTHON"] = warm
    check("a Python that is not there is named", p.returncode == 1 and "/no/such/python" in p.stderr, p.stderr)
    p = run(hone, "vm", write("device.py", "import torch\ntorch.zeros(4, device='cuda')\n"))
    check("a script that asks for a GPU is told of --cuda-shim",
          p.returncode == 1 and p.stderr.endswith("; --cuda-shim answers in its place\n"), p.stderr)
    odd = os.fsencode(work) + b"/caf\xe9.py"
    shutil.copy(write("plain.py", PLAIN), odd)
    p = subprocess.run([hone, "vm", odd], capture_output=True, text=True)
    check("a path that Triton cannot name is refused in one line",
          p.returncode == 1 and "the path is not UTF-8" in p.stderr and "Traceback" not in p.stderr, p.stderr)
    check("--help says that there is no sandbox", "unsandboxed" in run(hone, "vm", "--help").stdout)


def test_refusals_that_were():
    """Shapes of Triton's own tests that an earlier vm refused, or answered with the wrong words."""
    for check_too in ([], ["--check"]):
        p = run(hone, "vm", *check_too, write("integers.py", INTEGERS.replace("OVERFLOWS", "False")))
        check(f"sums, scans and descriptors of integers run {check_too}",
              p.returncode == 0 and p.stdout == "sums and descriptors\n", p.stdout + p.stderr)
    p = run(hone, "vm", "--check", write("integers.py", INTEGERS.replace("OVERFLOWS", "True")))
    check("a sum of int32 that overflows fails its assert under --check",
          p.returncode == 1 and "error: assert" in p.stderr and "overflow" in p.stderr, p.stdout + p.stderr)
    p = run(hone, "vm", write("before.py", BEFORE))
    check("a store before a tensor names that tensor",
          p.returncode == 1 and "argument x: index -64, allowed 0 to 255" in p.stderr, p.stderr)
    p = run(hone, "vm", "--cuda-shim", write("libraries.py", LIBRARIES))
    check("cuBLAS is PyTorch's product, and an allocation costs nothing",
          p.returncode == 0 and p.stdout == "products and times\n", p.stdout + p.stderr)


test_plain()
warm_workers(has_vm=True)   # the others' scripts: three seconds each go into the import of torch
test_costs()
test_uncompiled()
test_faults()
test_checks()
test_shim()
test_beyond()
test_contraction()
test_nvidia_smi()
test_card()
test_usage()
test_refusals_that_were()
done()
