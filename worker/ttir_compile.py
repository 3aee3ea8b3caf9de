"""ttir_compile: Triton's front end alone. A kernel becomes TTIR text in memory, without a GPU, a
file or another process.

Shared by the tracer (tracer_driver.py), which records launches, and by `hone vm` (vm_driver.py),
which runs them.
"""
import importlib.util
import io
import os

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction
from triton._C.libtriton import ir

WARP = 32
# modules beside Triton's whose kernel functions a candidate may call, as the installed library has
# them: what TorchInductor writes into the kernels that it prints
HELPERS = ("torch._inductor.runtime.triton_helpers",)
FOLDERS = {os.path.dirname(importlib.util.find_spec(name).origin) + os.sep: f"{name}/" for name in ("triton", "torch")}


def lines_of(text):
    """A text's lines as Python reads them from a file. `str.splitlines` ends a line at form feeds
    and at Unicode's separators too, where neither a file nor Python's parser does."""
    return io.StringIO(text, newline=None).readlines()


def without_folders(text):
    """Where libraries are installed says nothing about a kernel: texts have "triton/" instead."""
    for folder, name in FOLDERS.items():
        text = text.replace(folder, name)
    return text


def target(capability):
    return GPUTarget("cuda", capability, WARP)


def parse_options(src, options, goal):
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


def ttir_text(src, options, goal):
    """The front end and the target-independent passes, nothing after. Raises what Triton raises."""
    backend = make_backend(goal)
    context = context_of(goal)
    module = src.make_ir(goal, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    stages = {}
    backend.add_stages(stages, options, src.language)
    return str(stages["ttir"](module, {}))


class Refusal:
    """What the front end refused, and where: the author's file, line (from 1) and column (from 0,
    as in the IR's locations), the function that stands there, and the reason in one piece."""

    def __init__(self, src, error):
        functions, self.function, node = author_functions(src.fn), src.fn, None
        # Each error names a place in one function; its cause, if there is one, a place in what that
        # one calls. The author wants the innermost place of his own, and the innermost reason:
        # Triton's library refuses on behalf of a call.
        while isinstance(error, CompilationError):
            if error.src in functions and hasattr(error.node, "lineno"):
                self.function, node = functions[error.src], error.node
            if not isinstance(error.__cause__, CompilationError):
                break
            error = error.__cause__
        self.reason = getattr(error, "error_message", None) or str(error.__cause__ or error)
        self.file = self.function.fn.__code__.co_filename
        self.line, self.column = place_of(self.function, node)


def author_functions(kernel):
    """The kernel and the jitted functions that it reaches by names of its own, by their text; not
    those of a library."""
    found, more = {kernel.src: kernel}, [kernel]
    while more:
        for value in list(more.pop().fn.__globals__.values()):
            if isinstance(value, JITFunction) and value.src not in found:
                if not value.fn.__code__.co_filename.startswith(tuple(FOLDERS)):
                    found[value.src] = value
                    more.append(value)
    return found


def place_of(function, node):
    """Line and column of a node. Triton counts both in a text of its own: from the line of `def`,
    with the function's indentation taken off."""
    for i, text in enumerate(function.raw_src):
        if text.lstrip().startswith("def ") and node is not None:
            indent = len(text) - len(text.lstrip())
            return function.starting_line_number + i + node.lineno - 1, node.col_offset + indent
    return function.starting_line_number, 0
