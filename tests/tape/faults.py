"""Candidates that must not give a tape: (name, fault code, part of the text, source's part below
the imports, or the whole source when it starts with '!')."""

HEAD = '''import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def launch(t):
    y = torch.empty_like(t)
    copy_kernel[(triton.cdiv(t.numel(), 64),)](t, y, t.numel(), BLOCK=64)
    return y


'''


def forward(body, init="pass"):
    lines = "\n".join("        " + line for line in body.split("\n"))
    return (f"class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n    "
            f"def forward(self, x):\n{lines}\n")


FAULTS = [
    ("syntax error", "import-error", "invalid syntax", "!import torch\n\ndef f(:\n    pass\n"),
    ("import raises", "import-error", "boom", "raise ValueError('boom')\n"),
    ("inductor's grid is gone", "import-error", "grid",
     "!from torch._inductor.runtime.triton_heuristics import grid\n"),
    ("module that is not there", "import-error", "cupy", "!import cupy\n"),
    ("exit at import", "import-error", "", "!import sys\nsys.exit(0)\n"),
    ("no class", "no-class", "ModelNew", "class Model(nn.Module):\n    pass\n"),
    ("class is a function", "no-class", "ModelNew", "def ModelNew():\n    return 1\n"),
    ("class without forward", "no-class", "forward", "class ModelNew:\n    pass\n"),
    ("constructor raises", "init-error", "missing",
     "class ModelNew(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"),
    ("forward raises", "forward-error", "my own", forward("raise KeyError('my own')")),
    ("no forward of its own", "forward-error", "", "class ModelNew(nn.Module):\n    pass\n"),
    ("shapes do not match", "forward-error", "reduction dim", forward("return launch(x @ x)")),
    ("wrong number of arguments", "forward-error", "positional",
     "class ModelNew(nn.Module):\n    def forward(self, x, y):\n        return x\n"),
    ("exception without text", "forward-error", "no text",
     "class E(Exception):\n    def __str__(self):\n        raise ValueError\n\n\n" + forward("raise E()")),
    ("exit in forward", "forward-error", "", forward("raise SystemExit(0)")),
    ("recursion", "forward-error", "recursion", "def f(n):\n    return f(n + 1) + 1\n\n\n" + forward("return f(0)")),
    ("long text", "forward-error", "aaaa", forward("raise RuntimeError('a' * 100000)")),
    ("undefined name in a kernel", "triton-compile-error", "nowhere",
     "@triton.jit\ndef k(x):\n    tl.store(x, nowhere)\n\n\n" + forward("k[(1,)](x)\nreturn x")),
    ("shape error in a kernel", "triton-compile-error", "",
     "@triton.jit\ndef k(x):\n    tl.store(x + tl.arange(0, 3), 1.0)\n\n\n" + forward("k[(1,)](x)\nreturn x")),
    ("a wrong axis in Triton's library", "triton-compile-error", "invalid axis 1. Expected -1 <= axis < 1 (column 16)",
     "@triton.jit\ndef k(x):\n    tl.store(x, tl.max(tl.load(x + tl.arange(0, 4)), axis=1))\n\n\n"
     + forward("k[(1,)](x)\nreturn x")),
    ("CPU tensor for a pointer", "forward-error", "cpu tensor",
     forward("copy_kernel[(1,)](torch.zeros(4), x, 4, BLOCK=64)\nreturn x")),
    ("grid too large", "grid-too-large", "grid[1]", forward("copy_kernel[(1, 70000)](x, x, 4, BLOCK=64)\nreturn x")),
    ("autotuned argument given twice", "forward-error", "onflicting",
     "@triton.autotune(configs=[triton.Config({'B': 64}), triton.Config({'B': 32})], key=[])\n@triton.jit\ndef k(x, "
     "B: tl.constexpr):\n"
     "    tl.store(x + tl.arange(0, B), 1.0)\n\n\n" + forward("k[(1,)](x, B=16)\nreturn x")),
    ("item", "data-dependent", "value", forward("return launch(x) if x[0, 0].item() > 0 else x")),
    ("if on a tensor", "data-dependent", "value", forward("if (x > 0).any():\n    return launch(x)\nreturn x")),
    ("int of a tensor", "data-dependent", "value", forward("n = int(x.sum())\nreturn launch(x[:n])")),
    ("tolist", "data-dependent", "tolist", forward("x.tolist()\nreturn launch(x)")),
    ("numpy", "data-dependent", "numpy", forward("x.numpy()\nreturn launch(x)")),
    ("cpu", "data-dependent", "CPU", forward("return launch(x.cpu().cuda())")),
    ("nonzero", "data-dependent", "depends", forward("return launch(x.nonzero())")),
    ("boolean index", "data-dependent", "depends", forward("return launch(x[x > 0])")),
    ("equal", "data-dependent", "", forward("return launch(x) if torch.equal(x, x) else x")),
    ("caught, and still a fault", "data-dependent", "value",
     forward("try:\n    x.sum().item()\nexcept BaseException:\n    pass\nreturn launch(x)")),
    ("grid from a value", "data-dependent", "value",
     forward("copy_kernel[(x.max().long(),)](x, x, 4, BLOCK=64)\nreturn x")),
    ("randn", "random", "randn", forward("return launch(x + torch.randn(x.shape, device=x.device))")),
    ("randn on the CPU", "random", "", forward("return launch(x + torch.randn(4).cuda()[0])")),
    ("rand_like", "random", "rand_like", forward("return launch(torch.rand_like(x))")),
    ("dropout", "random", "", forward("return launch(F.dropout(x, 0.5, training=True))")),
    ("in-place uniform", "random", "uniform", forward("return launch(x.clone().uniform_())")),
    ("counter", "nondeterministic", "forward 2",
     forward("self.n += 1\nreturn launch(x) if self.n % 2 else launch(launch(x))", "self.n = 0")),
    ("counter as an argument", "nondeterministic", "forward 2",
     forward("self.n += 1\ny = torch.empty_like(x)\ncopy_kernel[(8,)](x, y, self.n, BLOCK=64)\nreturn y",
             "self.n = 50")),
    ("cached result", "nondeterministic", "forward 2",
     forward("if self.y is None:\n    self.y = launch(x)\nreturn self.y", "self.y = None")),
    ("cached by address", "nondeterministic", "forward 2",
     forward("k = x.data_ptr()\nif k not in C:\n    C[k] = launch(x)\nreturn C[k]").replace("class ModelNew",
         "C = {}\n\n\nclass ModelNew")),
    ("cached transposed input", "nondeterministic", "forward 2",
     forward("if self.t is None:\n    self.t = x.t().contiguous()\nreturn launch(self.t)", "self.t = None")),
    ("python's random", "nondeterministic", "forward", "import random\n\n\n"
     + forward("y = torch.empty_like(x)\ncopy_kernel[(8,)](x, y, random.randrange(1 << 30), BLOCK=64)\nreturn y")),
    ("clock", "nondeterministic", "forward", "import time\n\n\n" + forward(
        "y = torch.empty_like(x)\ncopy_kernel[(8,)](x, y, time.perf_counter_ns() % 1000003, BLOCK=64)\nreturn y")),
    ("random constants", "nondeterministic", "constants", "import random\n\n\n" + forward(
        "t = torch.tensor([random.random()] * 64, device=x.device)\ny = torch.empty_like(x)\ncopy_kernel[(1,)](t, y, "
        "64, BLOCK=64)\nreturn y")),
    ("accumulates across calls", "nondeterministic", "made before this call",
     forward("copy_kernel[(1,)](x, self.acc, 4, BLOCK=64)\nreturn self.acc",
             "self.acc = torch.zeros(64, device='cuda')")),
    ("a kernel writes into a constant", "nondeterministic", "may not be kept",
     forward("y = launch(self.t)\ncopy_kernel[(1,)](x, self.t, 64, BLOCK=64)\nreturn y",
             "self.t = torch.arange(64.0, device='cuda')")),
    ("an operator writes into a constant", "nondeterministic", "may not be kept",
     forward("y = launch(self.t)\nself.t.add_(1)\nreturn y", "self.t = torch.arange(64.0, device='cuda')")),
    ("reads what the last call moved", "nondeterministic", "may not be kept",
     forward("y = launch(self.t)\nself.t.copy_(x)\nreturn y", "self.t = torch.zeros(8, 16, device='cuda')")),
    ("a workspace of the constructor, cleared each time", "nondeterministic", "may not be kept",
     forward("self.t.zero_()\ncopy_kernel[(1,)](x, self.t, 64, BLOCK=64)\nreturn self.t.clone()",
             "self.t = torch.zeros(64, device='cuda')")),
    ("a border made at construction", "nondeterministic", "may not be kept",
     forward("self.p[:, 1:17] = x\nreturn launch(self.p)", "self.p = torch.zeros(8, 18, device='cuda')")),
    ("nothing", "no-output", "None", forward("launch(x)")),
    ("empty list", "no-output", "no tensor", forward("return []")),
    ("a number", "output-not-tensor", "int", forward("launch(x)\nreturn 3")),
    ("a list with an object", "output-not-tensor", "object", forward("return [launch(x), object()]")),
    ("a CPU tensor", "output-not-tensor", "cpu", forward("launch(x)\nreturn torch.zeros(4)")),
    ("an object", "output-not-tensor", "Fake",
     "class Fake:\n    shape = (1,)\n    dtype = torch.float32\n\n    def data_ptr(self):\n        return 1 << 40\n\n\n"
     + forward("return Fake()")),
    ("too many rows", "too-large", "rows", forward("for _ in range(5000):\n    x.zero_()\nreturn launch(x)")),
    ("too many constants", "too-large", "constants",
     forward("copy_kernel[(1,)](self.w, x, 4, BLOCK=64)\nreturn x", "self.w = nn.Parameter(torch.ones(11 << 20))")),
    ("too many outputs", "too-large", "65", forward("return [launch(x) for _ in range(65)]")),
    ("huge tensor", "too-large", "bytes", forward("return launch(torch.empty(1 << 40, device=x.device))")),
    ("CUDA graph", "unsupported", "launch the kernels in forward",
     forward("g = torch.cuda.CUDAGraph()\nreturn launch(x)")),
    ("a CUDA graph that is caught", "unsupported", "CUDAGraph",
     forward("try:\n    torch.cuda.CUDAGraph()\nexcept Exception:\n    pass\nreturn launch(x)")),
    ("a signal's handler that says it equals none", "unsupported", "signals",
     "import signal\n\n\nclass Equal:\n    def __eq__(self, other):\n        return True\n\n"
     "    def __hash__(self):\n        return hash(signal.SIG_DFL)\n\n"
     "    def __call__(self, number, frame):\n        pass\n\n\n"
     "signal.signal(signal.SIGUSR1, Equal())\n\n\n" + forward("return launch(x)")),
    ("torch.compile", "unsupported", "call the function as it is",
     "launch = torch.compile(launch)\n" + forward("return launch(x)")),
    ("a compiled method that is caught", "unsupported", "torch.compile",
     forward("try:\n    torch.nn.Identity().compile()\nexcept Exception:\n    pass\nreturn launch(x)")),
    ("a table of addresses", "unsupported", "addresses",
     forward("y = torch.empty_like(x)\nt = torch.tensor([x.data_ptr(), y.data_ptr(), 0], device=x.device)\n"
             "copy_kernel[(1,)](t, torch.empty_like(t), 2, BLOCK=64)\nreturn launch(x)")),
    ("TorchInductor's launcher", "unsupported", "launch them as kernel[grid]",
     "from torch._inductor.runtime import triton_heuristics\n" + forward(
         "triton_heuristics.pointwise(size_hints={'x': 64}, filename='candidate.py', triton_meta={}, inductor_meta={})"
         "(copy_kernel).run(x, x, 64, stream=0)\nreturn launch(x)")),
    ("IR from a file", "unsupported", "ir_override",
     forward("copy_kernel[(1,)](x, x, 4, BLOCK=64, ir_override='/etc/passwd')\nreturn launch(x)")),
    ("another card", "unsupported", "arch",
     forward("copy_kernel[(1,)](x, x, 4, BLOCK=64, arch='sm80')\nreturn launch(x)")),
    ("a library of its own", "unsupported", "extern_libs",
     forward("copy_kernel[(1,)](x, x, 4, BLOCK=64, extern_libs={'a': '/etc/passwd'})\nreturn launch(x)")),
    ("too many streams", "too-large", "streams",
     forward("for _ in range(64):\n    with torch.cuda.stream(torch.cuda.Stream()):\n        y = launch(x)\nreturn y")),
    ("complex", "unsupported", "complex", forward("return launch(torch.fft.fft(x).real)")),
    ("resize", "unsupported", "resize_", forward("y = launch(x)\nreturn y.resize_(2)")),
]


def source(text):
    return text[1:] if text.startswith("!") else HEAD + text
