"""tracer_driver: Triton without a GPU. Kernels are compiled as far as TTIR, in memory; a launch
becomes a row.

Registered with triton.runtime.driver.set_active, and in place of triton.compiler.compile.
Everything in front of that (the decorators, specialisation of arguments, the launch syntax) is
Triton's own. No file is written, no process started.

Autotuning has nothing to measure here: the configuration that the job names, or the first one, of
those that survive pruning and compile, is taken, and the number of configurations is kept in the
tape's kernel entry.
"""
import collections
import functools
import json
import operator
import os
import re

import torch
import triton
import triton.compiler
import triton.compiler.compiler
import triton.testing
from triton.backends.driver import GPUDriver
from triton.compiler.compiler import AsmDict
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner

import tracer_cuda
import tracer_seal
import tracer_source
from tracer_record import ADDRESS_SHIFT
from tracer_ttir import written_arguments
from tracer_source import recipe_of, recipe_text
from ttir_compile import Refusal, make_backend, parse_options, target, ttir_text, without_folders

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
NAMED = {}         # (recipe, a kernel's name) -> the text of both
ASK = None         # asks the supervisor for the IR of a recipe that a clean process makes (tracer.py); None: nobody
TURN = 0           # which configuration an autotuner shall take, counted from 1; 0: the first that compiles
IS_LATER = False   # the turn is a call behind the first: no benchmark comes before it
CONFIGS = 1        # configurations of the autotuner that is launching, for the kernel's tape entry
CHOICES = {}       # "kernel(key)", or "kernel" for all other keys -> which of those that survive pruning comes first
TUNED = {}         # "kernel(key)" -> [how many survive, which one was launched], of this trace
LABEL_MAX = 100
PROBE = None       # what is told of launches where only sizes are looked at (tracer_probe.py): nothing is compiled


class CompileFailed(Exception):
    """A kernel did not compile. `line` is the candidate's, or 0."""

    def __init__(self, src, error):
        refusal = Refusal(src, error)
        super().__init__(f"{refusal.reason} (column {refusal.column})")
        self.line = refusal.line


class GridTooLarge(RuntimeError):
    """A launch that a driver refuses, as it says it."""


def remember(kernels):
    """Before a second trace: (recipe, IR) of kernels for which a clean process made that IR from
    that recipe. Launched again by the same recipe they are not compiled again."""
    for text, ttir in kernels:
        recipe = json.loads(text)
        recipe.pop("name")
        TEXTS[recipe_text(recipe)] = ttir


class Facts:
    """What a tape needs to know of a compiled kernel. It is kept beside the object that host code
    has: there it would tell a trace from a run, and could be changed."""

    def __init__(self, kernel, src, options, ttir, source):
        self.kernel = kernel         # kept alive, since facts are found by its identity
        self.name = src.fn.__name__ if src is not None else "kernel"
        self.fn = src.fn if src is not None else None
        self.options, self.ttir, self.source, self.configs = options, ttir, source, CONFIGS
        self.num_warps = options.num_warps
        # the launcher then asks the host's allocator for memory
        self.makes_descriptors = "tt.make_tensor_descriptor" in ttir
        self.signature = list(src.signature.values())
        self.names = getattr(self.fn, "arg_names", ())
        self.written = "unknown"
        self.figures = (options.num_warps, options.num_ctas, 0)
        self.shown = None            # the attributes that host code was given
        self.is_launched = False

    def may_write(self, argument):
        """Whether a store may reach the buffer of this argument (index into the IR's arguments)."""
        if self.written == "unknown":
            self.written = written_arguments(self.ttir)
        return self.written is None or argument in self.written

    def tape_entry(self):
        """Options at their default are left out."""
        # The text as the object has it: who changed that meant it.
        out = {"name": self.name, "ttir": self.kernel.asm["ttir"], "num_warps": self.num_warps,
               "num_stages": self.options.num_stages, "num_ctas": self.options.num_ctas, "configs": self.configs,
               "source": self.source}
        for name, default in (("maxnreg", None), ("enable_fp_fusion", True), ("enable_reflect_ftz", True),
                              ("launch_cooperative_grid", False), ("launch_pdl", False)):
            value = getattr(self.options, name)
            if value != default:
                out[name] = int(value) if name == "maxnreg" else bool(value)
        words = (self.options.ptx_options or "").split()
        if words:
            out["ptx_options"] = " ".join(words)
        return out


FACTS = {}     # id of a kernel -> its facts
NOTHING = dict(tmem_size=None, global_scratch_size=0, global_scratch_align=1, profile_scratch_size=0,
               profile_scratch_align=1)
METADATA = collections.namedtuple("KernelMetadata", sorted({
    *make_backend(target(90)).parse_options({}).__dict__, "name", "shared", "hash", "target", *NOTHING}))


class TracedKernel:
    """What Triton's CompiledKernel is elsewhere, with its attributes and no others."""

    n_regs = 32
    n_spills = 0
    n_max_threads = 1024
    hash = ""

    def __init__(self, src, options, ttir, source):
        facts = FACTS[id(self)] = Facts(self, src, options, ttir, source)
        figures = dict(options.__dict__, name=facts.name, shared=SHARED, hash=self.hash, target=current_target(),
                       **NOTHING)
        self.metadata = METADATA(**{name: figures.get(name) for name in METADATA._fields})
        self.packed_metadata = facts.figures
        self.src = src
        self.hash = self.hash
        self.name = facts.name
        self.asm = AsmDict(ASM_MORE, ttir=ttir)
        self.metadata_group = {}
        self.kernel = self.asm.get("cubin", b"")
        self.module = self.function = self._run = None
        facts.shown = frozenset(vars(self))

    def _init_handles(self):
        pass

    def launch_metadata(self, grid, stream, *args):
        return None

    def result(self):
        return self

    def run(self, x, y, z, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args):
        for hook in (enter_hook, exit_hook):
            if getattr(hook, "calls", hook):
                RECORDER.fail("unsupported", "a launch hook: it would run beside the kernel, and does not here")
        if function is not None or launch_metadata is not None or packed_metadata != FACTS[id(self)].figures:
            RECORDER.fail("unsupported", "a launch with another function or other figures than its kernel has")
        record_launch(FACTS[id(self)], (x, y, z), args)

    def __getitem__(self, grid):
        grid = tuple(grid) + (1,) * (3 - len(grid))
        return lambda *args, stream=None: record_launch(FACTS[id(self)], grid, args)


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
    if PROBE is not None:
        return TracedKernel(src, options, "", "")
    refuse_changes(tracer_seal.broken())
    recipe, is_whole, jitted = recipe_of(src, options)
    refuse_written_hashes(jitted)
    place = src.name, src.hash(), options.hash()      # as Triton's own does: functions remember their hashes
    key = recipe_text(recipe)
    anywhere = without_alignment(recipe)
    if IS_ANYWHERE and anywhere in MADE_ALIGNED:
        return TracedKernel(src, options, *MADE_ALIGNED[anywhere])
    # A recipe is all that an IR depends on, as long as nobody has changed the front end.
    is_known = is_whole and (ASK is not None or key in TEXTS) and not tracer_seal.broken_front()
    text = TEXTS.get(key) if is_known else None
    if text is None and is_known and ASK is not None:
        text = ASK(named_text(key, recipe, src.fn._fn_name.rpartition(".")[2]))
        if text is not None:
            TEXTS[key] = text
    if text is None:
        try:
            text = ttir_text(src, options, current_target())
        except Exception as error:
            raise CompileFailed(src, error) from error
        # Where Triton is installed says nothing about a kernel, and tapes are compared by hash
        # across machines.
        text = without_folders(text).replace(tracer_source.OWN_NAME, tracer_source.RECIPES_NAME)
        if is_whole:
            TEXTS[key] = text
    if KEPT.setdefault(place, text) != text:
        RECORDER.fail("unsupported",
                      f"two kernels named {src.name[:80]} are one to Triton's cache of compiled kernels: it tells them "
                      "apart by text, line, constants that are tl.constexpr and arguments, and these are the same. "
                      "Whichever is launched second may get the other's machine code")
    found = IR_NAME.search(text)
    MADE_ALIGNED[anywhere] = text, named_text(key, recipe, found.group(1) if found else "")
    return TracedKernel(src, options, *MADE_ALIGNED[anywhere])


# What Triton's cache on disk would find a compiled kernel by -> its IR. A process that finds
# another's entry there launches it unseen, so no two IRs may have one.
KEPT = {}


def refuse_written_hashes(functions):
    """A kernel's part of that place is a hash of its text and of the hashes of what it calls; host
    code could write there whatever another kernel has. What has none yet is
    about to get its own."""
    then = [(f, f.hash, f.used_global_vals) for f in functions if f.hash is not None]
    for function, _, _ in then:
        function.hash = None
    for function, text, names in then:
        is_own = type(text) is str and function.cache_key == text      # a text of the host's own may equal all
        if not is_own:
            RECORDER.fail("unsupported", f"host code writes the hash of kernel {function.__name__[:80]}, by which "
                                         "Triton's cache finds machine code")
        function.used_global_vals = names


# By what a recipe says beside its pointers' alignment: the IR and the recipe. While a call's
# tensors begin anywhere, these stand for what Triton would make without the alignment.
MADE_ALIGNED, IS_ANYWHERE = {}, False


def without_alignment(recipe):
    is_number = [type(kind) is str and not kind.startswith("*") for _, kind in recipe["signature"]]
    return recipe_text(dict(recipe, attrs=[a for a in recipe["attrs"] if is_number[a[0][0]]]))


def named_text(key, recipe, name):
    """The text of a recipe, which has the key, with the kernel's name."""
    if (key, name) not in NAMED:
        NAMED[key, name] = recipe_text(recipe, name=name)
    return NAMED[key, name]


def refuse_changes(what):
    if what:
        RECORDER.fail("unsupported", f"host code changes {what}, which compiles or launches kernels in a real run")


def whole(value):
    """The number that a C launcher reads: an int's own, whatever its class says of itself."""
    return int.__index__(value) if isinstance(value, int) else operator.index(value)


def fraction(value):
    return float.__float__(value) if isinstance(value, float) else float(value)


def launched_programs(grid):
    """How many programs Triton's launcher takes a grid for, in C's int: where that is below 1 it
    launches nothing, and says nothing."""
    return (grid[0] * grid[1] * grid[2] + (1 << 31)) % (1 << 32) - (1 << 31)


def record_launch(kernel, grid, args):
    """A launch that fails here may be one that a driver takes (memory of the host's that is
    pinned): whoever goes on after it has no tape."""
    try:
        launch_recorded(kernel, grid, args)
    except BaseException:
        RECORDER.failed = f"a launch of {str(kernel.name)[:80]}"
        raise


def launch_recorded(kernel, grid, args):
    refuse_changes(tracer_seal.broken_later(kernel.is_launched))
    kernel.is_launched = True
    if vars(kernel.kernel).keys() - kernel.shown:
        RECORDER.fail("unsupported", f"host code gives a kernel {min(vars(kernel.kernel).keys() - kernel.shown)}")
    grid = [whole(g) for g in grid]
    is_launched = launched_programs(grid) > 0
    for axis, (size, limit) in enumerate(zip(grid, GRID_MAX)):
        if is_launched and (size < 0 or size > limit):
            raise GridTooLarge(
                f"Triton Error [CUDA]: invalid argument: grid[{axis}] is {size}, allowed are 0 to {limit}")
    if PROBE is not None:
        return PROBE.launch(kernel, grid, args)
    row_args = []
    for index, (kind, value) in enumerate(zip(kernel.signature, args)):
        append_argument(row_args, kind, value, index)
    if is_launched:
        RECORDER.launch(kernel, grid, row_args,
                        kernel.makes_descriptors and _allocation._allocator.get() is not _allocation._NULL_ALLOCATOR)
    else:
        RECORDER.launch_nothing(kernel, grid)


def append_argument(out, kind, value, index):
    """One runtime argument of the IR's function; constants were folded into the IR, tuples are
    flattened."""
    if isinstance(kind, tuple):
        for k, v in zip(kind, tuple.__iter__(value)):
            append_argument(out, k, v, index)
    elif kind == "constexpr":
        return
    elif kind[0] == "*":
        out.append(pointer_argument(value, index))
    elif kind in ("fp16", "bf16", "fp32", "f32", "fp64"):
        number = fraction(value)
        place = RECORDER.values.launched(RECORDER, number)
        out.append({"float": number} if place is None else {"value": place})
    elif kind.startswith("tensordesc"):
        out.append({"descriptor": descriptor_argument(value, index)})
    else:
        number = integer_argument(whole(value))
        # A tape's whole numbers have 64 bits and a sign.
        out.append({"int": number - (1 << 64) if kind == "u64" and number >> 63 else number})


def descriptor_argument(value, index):
    """(view, block, padding) of a tensor descriptor that the host made."""
    base = pointer_argument(value.base, index)
    shape, stride = tuple(map(whole, value.shape)), tuple(map(whole, value.strides))
    return ((base["buffer"], base["offset"], value.base.dtype, shape, stride), list(map(whole, value.block_shape)),
            value.padding)


def pointer_argument(value, index):
    if isinstance(value, torch.Tensor) and value.device.type != "cuda":
        raise ValueError(f"Pointer argument (at {index}) cannot be accessed from Triton (cpu tensor?)")
    address = whole(value if isinstance(value, int) else value.data_ptr())
    found = (SHELL if SHELL is not None else RECORDER).buffer_at(address)
    if found is None:
        raise ValueError(f"Pointer argument (at {index}) is {address:#x}, which is no tensor's address")
    return {"buffer": found[0], "offset": found[1]}


def integer_argument(value):
    """An integer; where it is a plain tensor's address, the synthetic one."""
    found = SHELL.buffer_at(value) if SHELL is not None else None
    return value if found is None else ((RECORDER.number(found[0]) + 1) << ADDRESS_SHIFT) + found[1]


def refused(what):
    def refuse(*args, **kwargs):
        RECORDER.fail("unsupported", f"{what}: kernels are loaded and launched by Triton alone")
    return refuse


class Utils:
    """The functions of Triton's driver that are written in C."""

    def __init__(self):
        self.load_binary = refused("load_binary")
        self.get_device_properties = lambda device: tracer_cuda.triton_properties()
        self.cuOccupancyMaxActiveClusters = refused("cuOccupancyMaxActiveClusters")
        self.set_printf_fifo_size = lambda size: None
        self.fill_tma_descriptor = refused("fill_tma_descriptor")

    def __getattr__(self, name):
        """What else there is belongs to a version of Triton's."""
        if not name.startswith("__"):
            RECORDER.fail("unsupported", f"host code asks for {name} of Triton's driver")
        raise AttributeError(name)


class Launcher:
    def __init__(self, src, metadata):
        refused("a launcher of the host's own")()


class Driver(GPUDriver):
    """Triton's view of the device."""

    def __init__(self):
        self.utils, self.launcher_cls = Utils(), Launcher

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


def fake_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """A benchmark that runs nothing: there is nothing to time, and what is drawn tells nobody
    that."""
    time = 10 ** tracer_cuda.DRAWN.uniform(-2.5, 1)
    return [time] * len(quantiles) if quantiles else time


def fake_bench_of_graph(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    return fake_bench(fn, quantiles=quantiles)


def choose(choices):
    """Before a trace: which configurations come first."""
    global CHOICES
    CHOICES = choices
    TUNED.clear()


def tuned():
    """[label, how many, which, label, ...] of the autotuners with a choice, in the order of their
    first launch."""
    return [part for label, numbers in list(TUNED.items())[:8] if numbers[0] > 1 for part in (label, *numbers)]


def tuning_label(self, kwargs):
    """(kernel, kernel with its key): what a choice is made for. Values that are no plain numbers
    show as their type; the types of tensors are part of the key, as in Triton."""
    values = {**self.nargs, **kwargs}
    key = [str(v) if isinstance(v, (bool, int, float)) else type(v).__name__
           for v in (values.get(name) for name in self.keys)]
    key += [str(v.dtype).replace("torch.", "") for v in values.values() if isinstance(v, torch.Tensor)]
    name = str(self.base_fn.__name__)[:LABEL_MAX // 2]
    return name, f"{name}({','.join(key)})"[:LABEL_MAX]


def tuning_key(self, kwargs):
    """What Triton's own autotuner keeps a configuration for: later calls with this key get it
    unasked, whatever other sizes they have."""
    values = {name: v for name, v in {**self.nargs, **kwargs}.items() if name in self.arg_names}
    return (*(values[name] for name in self.keys if name in values),
            *(str(v.dtype) for v in values.values() if hasattr(v, "dtype")))


def autotuner_run(self, *args, **kwargs):
    """Autotuner.run without measurement: of the configurations that survive pruning the chosen one,
    where it compiles; else the first that does. A turn asks for one by its number, behind launches
    as Triton's benchmark makes them at the first call, or without them as at a later one."""
    # Which configuration is asked for: by the turn's number, by the choice of an earlier timing, or
    # the first.
    self.nargs = dict(zip(self.arg_names, args))
    key = tuning_key(self, kwargs)
    kept = self.cache.get(key) if len(self.configs) > 1 and not TURN else None
    configs = [kept] if kept else list(self.prune_configs(kwargs)) if len(self.configs) > 1 else self.configs
    name, label = tuning_label(self, kwargs)
    wanted = (TURN - 1) % max(len(configs), 1) if TURN else CHOICES.get(label, CHOICES.get(name, 0))
    order = sorted(range(len(configs)), key=lambda i: i != wanted)
    failure = None
    # That one first, then the others in order: what does not compile is passed over, as Triton's
    # own autotuner does.
    for k, index in enumerate(order):
        config = configs[index]
        clash = kwargs.keys() & config.kwargs.keys()
        if clash:
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(clash)}. Make sure that you don't re-define auto-tuned "
                f"symbols.")
        try:
            if TURN and not IS_LATER and len(configs) > 1:
                benchmark(self, [configs[i] for i in order[k + 1:]] + [config], args, kwargs)
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            result = configured_run(self, config, args, kwargs)
        except CompileFailed as error:
            failure = failure or error
            continue
        # The choice, as a later launch and the record want to know it.
        self.best_config = config
        self.nargs = None
        if not kept:
            self.cache[key] = config
            TUNED.setdefault(label, [len(configs), index])
        return result
    raise failure


def configured_run(self, config, args, kwargs):
    global CONFIGS
    CONFIGS = len(self.configs)
    try:
        return self.fn.run(*args, **kwargs, **config.all_kwargs())
    finally:
        CONFIGS = 1


def benchmark(self, configs, args, kwargs):
    """What a real run does with the first call's arguments before it: each configuration is
    launched again and again, between the hooks. Here it is one more, and the one that is taken
    twice."""
    for config in (*configs[:1], configs[-1]):
        full = {**self.nargs, **kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(full)
        self.pre_hook(full)
        configured_run(self, config, args, kwargs)
        self.post_hook(full, exception=None)
    self.pre_hook(full, reset_only=True)


def install():
    """Once, in the zygote."""
    triton.runtime.driver.set_active(Driver())
    triton.runtime.driver._default = triton.runtime.driver.active
    triton.compile = triton.compiler.compile = triton.compiler.compiler.compile = compile_to_ttir
    Autotuner.run = autotuner_run
    triton.testing.do_bench = fake_bench
    triton.testing.do_bench_cudagraph = fake_bench_of_graph
    triton.knobs.runtime.interpret = False
    os.environ.pop("TRITON_INTERPRET", None)      # the knob wrote it, and elsewhere nobody has set it
