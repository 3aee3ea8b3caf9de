"""tracer_driver: Triton without a GPU. Kernels are compiled as far as TTIR, in memory; a launch
becomes a row.

Registered with triton.runtime.driver.set_active, and in place of triton.compiler.compile.
Everything in front of that (the decorators, specialisation of arguments, the launch syntax) is
Triton's own. No file is written, no process started.

Autotuning has nothing to measure here: the first configuration that survives pruning and compiles
is taken, and the number of configurations is kept in the tape's kernel entry.
"""
import functools
import json
import re
import types

import torch
import triton
import triton.compiler
import triton.compiler.compiler
import triton.testing
from triton.backends.driver import DriverBase
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner

import tracer_cuda
from tracer_record import ADDRESS_SHIFT
from tracer_ttir import written_arguments
from tracer_source import recipe_of, recipe_text
from ttir_compile import TRITON_FOLDER, error_line, make_backend, parse_options, target, ttir_text

IR_NAME = re.compile(r"tt\.func public @([\w$.-]+)\(")
GRID_MAX = (2**31 - 1, 65535, 65535)
# Options that would make the compiler read other files, or do something else than compile this
# kernel for this card.
FORBIDDEN_OPTIONS = {"ir_override": None, "ptx_version": None, "instrumentation_mode": "", "warp_size": 32}

RECORDER = None    # the process's recorder; launches arrive from Triton without a context argument
SHELL = None       # the second trace's plain tensors (tracer_plain.py)
SHARED = 0         # bytes of shared memory that a kernel is said to use
ASM_MORE = {}      # further texts that a kernel is said to have
TEXTS = {}         # recipe -> IR: most sizes of a task ask for the same kernels
CONFIGS = 1        # configurations of the autotuner that is launching, for the kernel's tape entry


class CompileFailed(Exception):
    """A kernel did not compile. `line` is the candidate's, or 0."""

    def __init__(self, error, line):
        super().__init__(f"{type(error).__name__}: {error}")
        self.line = line


class GridTooLarge(RuntimeError):
    """A launch that a driver refuses, as it says it."""


def remember(kernels):
    """Before a second trace: (recipe, IR) of kernels for which a clean process made that IR from that
    recipe. Launched again by the same recipe they are not compiled again."""
    for text, ttir in kernels:
        recipe = json.loads(text)
        recipe.pop("name")
        TEXTS[recipe_text(recipe)] = ttir


class TracedKernel:
    """What Triton's CompiledKernel is elsewhere."""

    module = None
    function = None
    n_regs = 32
    n_spills = 0
    n_max_threads = 1024
    hash = ""

    def __init__(self, src, options, ttir, source):
        self.src = src
        self.name = src.fn.__name__ if src is not None else "kernel"
        self.num_warps, self.num_stages, self.num_ctas = options.num_warps, options.num_stages, options.num_ctas
        # the launcher then asks the host's allocator for memory
        self.makes_descriptors = "tt.make_tensor_descriptor" in ttir
        self.signature = list(src.signature.values())
        self.asm = dict(ASM_MORE, ttir=ttir)
        self.source = source
        self.configs = CONFIGS
        self.written = "unknown"
        self.options = options
        self.metadata = types.SimpleNamespace(**dict(options.__dict__, name=self.name, shared=SHARED,
                                                     target=current_target(), tmem_size=None))
        self.packed_metadata = (options.num_warps, options.num_ctas, 0)

    def may_write(self, argument):
        """Whether a store may reach the buffer of this argument (index into the IR's arguments)."""
        if self.written == "unknown":
            self.written = written_arguments(self.asm["ttir"])
        return self.written is None or argument in self.written

    def _init_handles(self):
        pass

    def launch_metadata(self, grid, stream, *args):
        return None

    def result(self):
        return self

    def run(self, x, y, z, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args):
        record_launch(self, (x, y, z), args)

    def __getitem__(self, grid):
        grid = tuple(grid) + (1,) * (3 - len(grid))
        return lambda *args, stream=None: record_launch(self, grid, args)

    def tape_entry(self):
        """Options at their default are left out."""
        out = {"name": self.name, "ttir": self.asm["ttir"], "num_warps": self.num_warps, "num_stages": self.num_stages,
               "num_ctas": self.num_ctas, "configs": self.configs, "source": self.source}
        for name, default in (("maxnreg", None), ("enable_fp_fusion", True), ("enable_reflect_ftz", True),
                              ("launch_cooperative_grid", False), ("launch_pdl", False)):
            value = getattr(self.options, name)
            if value != default:
                out[name] = int(value) if name == "maxnreg" else bool(value)
        words = (self.options.ptx_options or "").split()
        if words:
            out["ptx_options"] = " ".join(words)
        return out


def current_target():
    return target(tracer_cuda.CARD["capability"])


@functools.cache
def default_options(goal):
    return make_backend(goal).parse_options({})


def compile_to_ttir(src, target=None, options=None, _env_vars=None):
    """In place of triton.compile."""
    default = default_options(current_target())
    options = parse_options(src, options, current_target())
    for name in ("extern_libs", "arch", *FORBIDDEN_OPTIONS):
        if getattr(options, name) != FORBIDDEN_OPTIONS.get(name, getattr(default, name)):
            RECORDER.fail("unsupported",
                          f"the launch option {name} is not supported: kernels are compiled from their own IR for the "
                          f"card of the record")
    recipe = recipe_of(src, options)
    key = recipe_text(recipe)
    # A recipe is all that an IR depends on, unless it has parts that are not understood, or a name
    # that is computed.
    is_whole = '"unknown"' not in key and src.fn._repr is None
    text = TEXTS.get(key) if is_whole else None
    if text is None:
        try:
            text = ttir_text(src, options, current_target())
        except Exception as error:
            raise CompileFailed(error, error_line(src, error)) from error
        # Where Triton is installed says nothing about a kernel, and tapes are compared by hash
        # across machines.
        text = text.replace(TRITON_FOLDER, "triton/")
        if is_whole:
            TEXTS[key] = text
    found = IR_NAME.search(text)
    return TracedKernel(src, options, text, recipe_text(recipe, name=found.group(1) if found else ""))


def record_launch(kernel, grid, args):
    grid = [int(g) for g in grid]
    for axis, (size, limit) in enumerate(zip(grid, GRID_MAX)):
        if size < 0 or size > limit:
            raise GridTooLarge(
                f"Triton Error [CUDA]: invalid argument: grid[{axis}] is {size}, allowed are 0 to {limit}")
    row_args = []
    for index, (kind, value) in enumerate(zip(kernel.signature, args)):
        append_argument(row_args, kind, value, index)
    if grid[0] * grid[1] * grid[2] > 0:
        RECORDER.launch(kernel, grid, row_args,
                        kernel.makes_descriptors and _allocation._allocator.get() is not _allocation._NULL_ALLOCATOR)


def append_argument(out, kind, value, index):
    """One runtime argument of the IR's function; constants were folded into the IR, tuples are
    flattened."""
    if isinstance(kind, tuple):
        for k, v in zip(kind, value):
            append_argument(out, k, v, index)
    elif kind == "constexpr":
        return
    elif kind[0] == "*":
        out.append(pointer_argument(value, index))
    elif kind in ("fp16", "bf16", "fp32", "f32", "fp64"):
        out.append({"float": float(value)})
    elif kind.startswith("tensordesc"):
        out.append({"descriptor": descriptor_argument(value, index)})
    else:
        out.append({"int": integer_argument(int(value))})


def descriptor_argument(value, index):
    """(view, block, padding) of a tensor descriptor that the host made."""
    base = pointer_argument(value.base, index)
    shape, stride = tuple(int(n) for n in value.shape), tuple(int(n) for n in value.strides)
    return ((base["buffer"], base["offset"], value.base.dtype, shape, stride), [int(n) for n in value.block_shape],
            value.padding)


def pointer_argument(value, index):
    if isinstance(value, torch.Tensor) and value.device.type != "cuda":
        raise ValueError(f"Pointer argument (at {index}) cannot be accessed from Triton (cpu tensor?)")
    address = value if isinstance(value, int) else value.data_ptr()
    found = SHELL.buffer_at(address) if SHELL is not None else buffer_at(address)
    if found is None:
        raise ValueError(f"Pointer argument (at {index}) is {address:#x}, which is no tensor's address")
    return {"buffer": found[0], "offset": found[1]}


def buffer_at(address):
    """(buffer, offset) of a synthetic address, or None."""
    number = (address >> ADDRESS_SHIFT) - 1
    return (RECORDER.order[number], address & ((1 << ADDRESS_SHIFT) - 1)) if 0 <= number < len(RECORDER.order) else None


def integer_argument(value):
    """An integer; where it is a plain tensor's address, the synthetic one."""
    found = SHELL.buffer_at(value) if SHELL is not None else None
    return value if found is None else ((RECORDER.number(found[0]) + 1) << ADDRESS_SHIFT) + found[1]


class Driver(DriverBase):
    """Triton's view of the device."""

    class utils:
        @staticmethod
        def get_device_properties(device):
            return tracer_cuda.triton_properties()

    @classmethod
    def is_active(cls): return True
    def map_python_to_cpp_type(self, ty): return ty
    def get_current_target(self): return current_target()
    def get_active_torch_device(self): return torch.device("cuda", 0)
    def get_device_interface(self): return torch.cuda
    def get_current_device(self): return 0
    def set_current_device(self, device): pass
    def get_current_stream(self, device=0): return tracer_cuda.CURRENT[0].cuda_stream
    def get_device_capability(self, device=0): return tracer_cuda.capability()
    def get_benchmarker(self): return fake_bench
    def get_empty_cache_for_benchmark(self): return None
    def clear_cache(self, cache): pass
    def assemble_tensormap_to_arg(self, tensormaps_info, args): return args


def fake_bench(fn=None, *args, quantiles=None, **kwargs):
    """A benchmark that runs nothing: there is nothing to time."""
    return [1.0] * len(quantiles) if quantiles else 1.0


def autotuner_run(self, *args, **kwargs):
    """Autotuner.run without measurement: the first configuration that survives pruning and compiles."""
    global CONFIGS
    self.nargs = dict(zip(self.arg_names, args))
    configs = list(self.prune_configs(kwargs)) if len(self.configs) > 1 else self.configs
    failure = None
    for config in configs:
        clash = kwargs.keys() & config.kwargs.keys()
        if clash:
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(clash)}. Make sure that you don't re-define auto-tuned "
                f"symbols.")
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        CONFIGS = len(self.configs)
        try:
            result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        except CompileFailed as error:
            failure = failure or error
            continue
        finally:
            CONFIGS = 1
        self.best_config = config
        self.nargs = None
        return result
    raise failure


def install():
    """Once, in the zygote."""
    triton.runtime.driver.set_active(Driver())
    triton.compile = triton.compiler.compile = triton.compiler.compiler.compile = compile_to_ttir
    Autotuner.run = autotuner_run
    triton.testing.do_bench = fake_bench
    triton.testing.do_bench_cudagraph = lambda *args, **kwargs: fake_bench(*args, **kwargs)
    triton.knobs.runtime.interpret = False
