"""ttir_compile: Triton's front end alone. A kernel becomes TTIR text in memory, without a GPU, a
file or another process.

Shared by the tracer (tracer_driver.py), which records launches, and by `hone vm` (vm_driver.py),
which runs them.
"""
import importlib.util
import os

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.compiler.errors import CompilationError
from triton._C.libtriton import ir

WARP = 32
# modules beside Triton's whose kernel functions a candidate may call, as the installed library has
# them: what TorchInductor writes into the kernels that it prints
HELPERS = ("torch._inductor.runtime.triton_helpers",)
FOLDERS = {os.path.dirname(importlib.util.find_spec(name).origin) + os.sep: f"{name}/" for name in ("triton", "torch")}


def without_folders(text):
    """Where libraries are installed says nothing about a kernel: texts have "triton/" instead."""
    for folder, name in FOLDERS.items():
        text = text.replace(folder, name)
    return text


def target(capability):
    return GPUTarget("cuda", capability, WARP)


TARGET = target(90)    # of hone vm, whose kernels run on no card


def parse_options(src, options, goal=TARGET):
    return make_backend(goal).parse_options(dict(options or {}, **src.parse_options()))


CONTEXTS = {}      # by backend


def context_of(goal):
    """The process's MLIR context. Loading the dialects takes longer than a small kernel, so a
    zygote makes one before it forks; what a context keeps between kernels (types and attributes,
    one of each) does not show in any text."""
    if goal.backend not in CONTEXTS:
        context = ir.context()
        ir.load_dialects(context)
        make_backend(goal).load_dialects(context)
        CONTEXTS[goal.backend] = context
    return CONTEXTS[goal.backend]


def ttir_text(src, options, goal=TARGET):
    """The front end and the target-independent passes, nothing after. Raises what Triton raises."""
    backend = make_backend(goal)
    context = context_of(goal)
    module = src.make_ir(goal, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    stages = {}
    backend.add_stages(stages, options, src.language)
    return str(stages["ttir"](module, {}))


def error_line(src, error):
    """The author's line: Triton numbers lines from the function's first."""
    while isinstance(error.__cause__, CompilationError):
        error = error.__cause__
    node = getattr(error, "node", None)
    first = getattr(src.fn, "starting_line_number", 0)
    if node is None or not hasattr(node, "lineno"):
        return first
    for i, text in enumerate(src.fn.raw_src):
        if text.lstrip().startswith("def "):
            return first + i + node.lineno - 1
    return first
