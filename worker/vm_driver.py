"""vm_driver: Triton's kernels run on the vm, in this process, on the memory of ordinary CPU
tensors.

Registered with triton.runtime.driver.set_active and in place of triton.compiler.compile;
decorators, specialisation, autotuning and the launch syntax are Triton's own. A kernel is compiled
to TTIR for the card of --gpu (ttir_compile.py) and handed to libhone_vm.so; a launch packs its
arguments into an array of words (vm_shared.c) and runs there and then.

What a launch would take on a GPU is predicted from the vm's counts (vm_cost.py) wherever Triton
would have asked a clock.
"""
import ctypes
import gc
import json
import linecache
import operator
import os
import struct
import sys
import tempfile

import torch
import triton
import triton.compiler
import triton.compiler.compiler
import triton.testing
from triton import knobs
from triton.backends.driver import DriverBase
from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

import compile as compile_worker
import tracer_cuda
import vm_cost
from ttir_compile import Refusal, parse_options, target, ttir_text

GRID_MAX = (2**31 - 1, 65535, 65535)
FLAG_COST, FLAG_CHECK, FLAG_CUDA, FLAG_FMA = 1, 2, 4, 8
FLOATS = ("fp16", "bf16", "fp32", "f32", "fp64")
# Options that say how a kernel is mapped to the hardware and nothing about its TTIR: configurations
# that differ in them alone share a kernel.
MAPPING = ("num_warps", "num_stages", "num_ctas", "maxnreg", "warp_size", "minRegAutoWS", "maxRegAutoWS",
           "cluster_dims", "launch_pdl", "launch_cooperative_grid", "ir_override")
INTERNAL = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(triton.__file__) + os.sep)

real_compile = triton.compiler.compile
library = None
flags = 0              # FLAG_* of every launch
printed = set()        # places of findings that were printed
check_faults = 0       # faults found so far: they fail the run even where the script catches the exception
configs_max = 24       # configurations of one autotuner that are compared
torch_device = torch.device("cpu")
on_launch = None       # called with kernel, grid and arguments before each launch (vm_graph.py)


class VmError(RuntimeError):
    """The vm cannot run a kernel: an operation it does not support, or arguments that do not
    fit."""


class VmFault(RuntimeError):
    """A kernel did what it must not. The message is complete; no traceback adds to it."""


def current_target():
    return target(tracer_cuda.CARD["capability"])


def load_library(path, threads):
    global library
    library = ctypes.CDLL(path)
    library.hone_vm_report.restype = ctypes.c_char_p
    library.hone_vm_kernel_create.restype = ctypes.c_void_p
    library.hone_vm_kernel_create.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.hone_vm_operator_s.restype = ctypes.c_double
    library.hone_vm_operator_s.argtypes = [ctypes.c_char_p] * 2 + [ctypes.c_double] * 5 + [ctypes.c_int]
    vm_cost.library = library
    library.hone_vm_compiled_create.restype = ctypes.c_void_p
    library.hone_vm_compiled_create.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.hone_vm_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_uint32] * 3,
                                       ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    library.hone_vm_threads(threads)
    if library.hone_vm_gpu(tracer_cuda.CARD["name"].encode()):
        raise ValueError(f"{tracer_cuda.CARD['name']} is no card of the library's table")


def last_report():
    return json.loads(library.hone_vm_report().decode(errors="replace"))


# ---- kernels ----

class LazyAsm(dict):
    """TTIR is there; what follows it is compiled when somebody reads it."""

    def __init__(self, kernel, ttir):
        super().__init__(ttir=ttir)
        self.kernel = kernel

    def __missing__(self, stage):
        self.update({k: v for k, v in self.kernel.compiled().asm.items() if k not in self})
        return self[stage]


class Metadata:
    """Options and the fields of a compiled kernel's metadata; those that only the compiler knows
    are asked of it."""

    def __init__(self, kernel, options):
        self.__dict__.update(options.__dict__, name=kernel.name, target=current_target(), tmem_size=None,
                             tensordesc_meta=None)
        self.__dict__["kernel"] = kernel

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.kernel.compiled().metadata, name)


class Kernel:
    """What Triton's CompiledKernel is elsewhere."""

    module = None
    function = None
    n_regs = 64          # of an untuned kernel; the real number needs ptxas
    n_spills = 0
    n_max_threads = 1024

    def __init__(self, src, options, ttir, handle):
        self.src, self.options, self.handle = src, options, handle
        self.name = src.fn.__name__
        self.hash = src.hash()
        self.asm = LazyAsm(self, ttir)
        self.metadata = Metadata(self, options)
        self.packed_metadata = (options.num_warps, options.num_ctas, 0)
        self.kinds = list(src.signature.values())
        self.names = list(src.signature)
        self.reads_pointers = "tt.int_to_ptr" in ttir or "!tt.ptr<!tt.ptr" in ttir
        self.pack = make_packer(self.kinds)
        self._compiled = None
        self._costing = None

    def costing(self):
        """Handle of what the compiler says about this kernel: layouts, registers, shared memory,
        spills. Made when costs are first counted."""
        if self._costing is None:
            text = json.dumps(compile_result(self)).encode()
            self._costing = library.hone_vm_compiled_create(text, len(text))
            if not self._costing:
                raise VmError(f"{self.name}: {last_report()['text']}")
        return self._costing

    def compiled(self):
        if self._compiled is None:
            self._compiled = real_compile(self.src, target=current_target(), options=self.options.__dict__)
        return self._compiled

    def _init_handles(self):
        pass

    def result(self):
        return self

    def launch_metadata(self, grid, stream, *args):
        if not knobs.runtime.launch_enter_hook.calls and not knobs.runtime.launch_exit_hook.calls:
            return None
        data = triton.compiler.compiler.LazyDict({"name": self.name, "function": self.function, "stream": stream})
        if self.src.fn.launch_metadata is not None:
            data.add(self.src.fn.launch_metadata, (grid, self.metadata, dict(zip(self.src.fn.arg_names, args))))
        return data

    def run(self, x, y, z, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args):
        if launch_metadata is not None:
            enter_hook(launch_metadata)
        self.launch(x, y, z, args)
        if launch_metadata is not None:
            exit_hook(launch_metadata)

    def __getitem__(self, grid):
        grid = tuple(grid) + (1,) * (3 - len(grid))
        return lambda *args, stream=None: self.launch(*grid, args)

    def launch(self, x, y, z, args):
        try:
            words = self.pack(*args)
        except (AttributeError, TypeError, struct.error, NotImplementedError, RuntimeError):
            words = pack_slowly(self.kinds, args)
        if not (x.__class__ is int and y.__class__ is int and z.__class__ is int and 0 < x <= GRID_MAX[0]
                and 0 < y <= GRID_MAX[1] and 0 < z <= GRID_MAX[2]):
            x, y, z = check_grid(x, y, z)
            if not x * y * z:
                return
        if on_launch is not None:
            on_launch(self, (x, y, z), args)
        want = flags | (FLAG_COST if vm_cost.listeners else 0)
        nhost, host = live_storages() if self.reads_pointers else (0, None)
        costing = self.costing() if want & FLAG_COST else None
        if library.hone_vm_launch(self.handle, costing, words, x, y, z, want, nhost, host):
            fail_launch(self, args)
        if want & ~FLAG_CUDA:
            report = last_report()
            vm_cost.add(self, report)
            print_findings(self, report)


def check_grid(*grid):
    grid = list(grid)
    for axis, (size, limit) in enumerate(zip(grid, GRID_MAX)):
        try:
            grid[axis] = size = operator.index(size)
        except TypeError as error:    # a quotient, most often; as Triton's launcher words it
            raise TypeError(f"{error}: grid[{axis}] is {size}") from None
        if not 0 <= size <= limit:
            raise RuntimeError(
                f"Triton Error [CUDA]: invalid argument: grid[{axis}] is {size}, allowed are 0 to {limit}")
    return grid


shared_kernels = {}    # (source, options without the mapping) -> (TTIR, handle)


def compile_for_vm(src, target=None, options=None, _env_vars=None):
    """In place of triton.compile."""
    if not hasattr(src, "fn"):
        return real_compile(src, target=target or current_target(), options=options)
    if not type(src).__name__ == "ASTSource":
        raise VmError(f"{src.fn.__name__}: Gluon kernels are not supported by the vm, only kernels of triton.jit")
    options = parse_options(src, options, current_target())
    if options.num_warps * 32 > Kernel.n_max_threads:    # Triton says so when it loads the kernel
        raise OutOfResources(options.num_warps * 32, Kernel.n_max_threads, "threads")
    visible = {k: v for k, v in options.__dict__.items() if k not in MAPPING}
    key = (src.hash(), str(sorted(visible.items(), key=lambda item: item[0])))
    if key not in shared_kernels:
        try:
            ttir = ttir_text(src, options, current_target())
        except CompilationError as error:
            error.vm_text = refusal_text(Refusal(src, error))    # for vm_main, where the script lets it pass
            raise
        shared_kernels[key] = ttir, make_handle(src, ttir)
    return Kernel(src, options, *shared_kernels[key])


def compile_result(kernel):
    """By the verifier's own compile worker, in this process. What no GPU could launch is refused as
    Triton refuses it."""
    options = kernel.options
    job = {name: getattr(options, name) for name in compile_worker.INT_OPTIONS + compile_worker.BOOL_OPTIONS
           if getattr(options, name, None) is not None}
    job.update(ttir=kernel.asm["ttir"], arch=tracer_cuda.CARD["capability"],
               shared_bytes=tracer_cuda.CARD["shared_bytes"], want_ttgir=True)
    with tempfile.TemporaryDirectory(prefix="hone-vm-") as folder:
        try:
            return compile_worker.compile_ttir(job, folder)[0]
        except compile_worker.CompileFault as fault:
            if fault.code == "out-of-resources":
                raise OutOfResources(fault.required, job["shared_bytes"], "shared memory") from None
            raise VmError(f"{kernel.name}: {fault}") from None
        except RuntimeError as error:      # a pass that failed, which says no more
            card = tracer_cuda.CARD["name"]
            raise VmError(f"{kernel.name}: Triton does not compile it for {card}: {error}") from None


def make_handle(src, ttir):
    text = ttir.encode()
    handle = library.hone_vm_kernel_create(text, len(text))
    if not handle:
        raise VmError(f"{src.fn.__name__}: {last_report()['text']}")
    return handle


# ---- arguments ----

def make_packer(kinds):
    """A function of a kernel's bound arguments that gives the launch's words; written out for the
    signature, because a launch spends most of its time here."""
    if any(isinstance(k, tuple) or k.startswith("tensordesc") for k in kinds):
        return lambda *args: pack_slowly(kinds, args)
    form, body, values = "", "", []
    for i, kind in enumerate(kinds):
        if kind[0] == "*":
            form += "qqq"
            body += f"    s{i} = a{i}.untyped_storage()\n"
            values += [f"a{i}.data_ptr()", f"s{i}.data_ptr()", f"s{i}.nbytes()"]
        elif kind != "constexpr":
            form += "d" if kind in FLOATS else "Q" if kind == "u64" else "q"
            values.append(f"a{i}")
    names = {"P": struct.Struct(form).pack}
    exec(f"def pack({', '.join(f'a{i}' for i in range(len(kinds)))}):\n{body}    return P({', '.join(values)})\n",
         names)
    return names["pack"]


def pack_slowly(kinds, args):
    words = []
    for kind, value in zip(kinds, args):
        add_words(words, kind, value)
    return b"".join(words)


def add_words(out, kind, value):
    if isinstance(kind, tuple):
        for k, v in zip(kind, value):
            add_words(out, k, v)
    elif kind == "constexpr":
        return
    elif kind[0] == "*":
        out.append(struct.pack("QQQ", *pointer_words(value)))
    elif kind.startswith("tensordesc"):
        out.append(struct.pack("QQQQ", *pointer_words(value.base), value.padding == "nan"))
        out.append(struct.pack(f"{2 * len(value.shape)}q", *map(int, value.shape), *map(int, value.strides)))
    elif kind in FLOATS:
        out.append(struct.pack("d", float(value)))
    else:
        out.append(struct.pack("Q", int(value) & (2**64 - 1)))


def pointer_words(value):
    tensor = value
    while not isinstance(tensor, torch.Tensor) and hasattr(tensor, "base"):
        tensor = tensor.base       # triton.reinterpret's wrapper
    if isinstance(tensor, torch.Tensor):
        if real_device(tensor).type != "cpu":
            raise ValueError(
                f"a tensor on {real_device(tensor)} is no argument for the vm: it runs kernels on CPU tensors")
        storage = tensor.untyped_storage()
        return value.data_ptr(), storage.data_ptr(), storage.nbytes()
    address = value if isinstance(value, int) else value.data_ptr()
    _, _, pairs = live_pairs()
    for base, size in pairs:
        if base <= address < base + size:
            return address, base, size
    return address, address, 0


real_device = torch._C.TensorBase.device.__get__


def live_pairs():
    found = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            try:
                storage = thing.untyped_storage()
                found[storage.data_ptr()] = max(storage.nbytes(), found.get(storage.data_ptr(), 0))
            except (RuntimeError, NotImplementedError, AttributeError):
                continue           # a fake or a lazy tensor has no memory
    found.pop(0, None)
    return len(found), None, sorted(found.items())


def live_storages():
    """All memory that tensors have: a kernel that reads pointers from memory may follow them
    there."""
    count, _, pairs = live_pairs()
    return count, struct.pack(f"{2 * count}q", *(word for pair in pairs for word in pair))


# ---- faults ----

def fail_launch(kernel, args):
    global check_faults
    report = last_report()
    if "fault" not in report:
        raise VmError(f"{kernel.name}: {report.get('text')}")
    text = fault_text(kernel, args, report)
    if report["fault"] == "unsupported":
        raise VmError(text)
    check_faults += 1
    if "passed_over" not in report:
        print(text, file=sys.stderr, flush=True)
        print_findings(kernel, report)
        raise VmFault(text)
    place = (report["file"], report["line"], report["column"], report["fault"])
    if place not in printed:
        print(text + "\n  The load gives 0 and the run goes on, as it would on a GPU, where PyTorch's allocator "
              "reserves 2 MiB at a time.",
              file=sys.stderr, flush=True)
    printed.add(place)


def print_findings(kernel, report):
    """What --check found beyond the fault that the message above describes: each place once in a
    run."""
    for f in report.get("findings", []):
        place = (f["file"], f["line"], f["column"], f["kind"])
        is_first = (f["is_error"] and "fault" in report
                    and place == (report["file"], report["line"], report["column"], report["fault"]))
        if is_first or place in printed:
            continue
        printed.add(place)
        often = f", {f['times']} times in {f['programs']} programs" if f["times"] > 1 else ""
        print(f"{f['file']}:{f['line']}:{f['column']}: {'error' if f['is_error'] else 'note'}: {f['kind']}: "
              f"{f['text']}{often}\n  in {kernel.name}, program "
              f"({', '.join(map(str, f['program']))})", file=sys.stderr, flush=True)


def fault_text(kernel, args, report):
    """Like a compiler's message: where, what, the line; then which program, which element, which
    tensor and what was allowed."""
    access = report.get("access")
    fault = report["fault"].replace("read-only", "read-only memory:")
    what = f"{fault} {access}" if access else f"{fault.replace('-', ' ')}: {report['text'].split('): ', 1)[-1]}"
    lines = place_lines(report["file"], report["line"], report["column"], what)
    where = f"  in {kernel.name}, program ({', '.join(map(str, report['program']))})"
    lines.append(where + (f", element {report['element']} of the block" if report["element"] >= 0 else ""))
    if access:
        lines.append("  " + describe_access(kernel, args, report))
    return "\n".join(lines + launch_lines())


def refusal_text(refusal):
    """A kernel that Triton's front end refuses, in the same form."""
    lines = place_lines(refusal.file, refusal.line, refusal.column, refusal.reason)
    return "\n".join(lines + [f"  in {refusal.function.__name__}"] + launch_lines())


def place_lines(file, line, column, what):
    """The place and what is wrong there; the line, with a mark below the
    column (counted from 0)."""
    source = linecache.getline(file, line).rstrip("\n").expandtabs(4)
    text = [f"{file}:{line}:{column}: error: {what}"]
    if source:
        text += ["    " + source.strip(), "    " + " " * max(column - (len(source) - len(source.lstrip())), 0) + "^"]
    return text


def launch_lines():
    caller = launch_site()
    return [f"  launched at {caller}"] if caller else []


def pointer_arguments(names, kinds, args):
    for name, kind, value in zip(names, kinds, args):
        if isinstance(kind, tuple):
            yield from pointer_arguments([f"{name}[{i}]" for i in range(len(kind))], kind, value)
        elif kind.startswith("tensordesc"):
            yield name, value.base
        elif kind[0] == "*":
            yield name, value


def describe_access(kernel, args, report):
    if "storage" not in report:
        return f"address {report['address'] & (2**64 - 1):#x} lies in no tensor of the launch"
    for name, value in pointer_arguments(kernel.names, kernel.kinds, args):
        address, base, size = pointer_words(value)
        if base != report["storage"]:
            continue
        tensor = value if isinstance(value, torch.Tensor) else getattr(value, "base", None)
        item = report["access_bytes"]
        start = address - base if address else 0
        text = (f"argument {name}: index {(report['offset'] - start) // item}, allowed {-(start // item)} to "
                f"{(size - start) // item - 1}")
        if isinstance(tensor, torch.Tensor):
            is_whole = size == tensor.numel() * tensor.element_size()
            text += (f" ({str(tensor.dtype)[6:]}{list(tensor.shape)}"
                     f"{'' if is_whole else f' in a storage of {size} bytes'})")
        return text
    return f"offset {report['offset']} of a storage of {report['storage_bytes']} bytes, which is no argument's"


def launch_site():
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith(INTERNAL) or frame.f_code.co_filename.startswith("<")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


# ---- Triton's view of the device ----

class Driver(DriverBase):
    class utils:
        @staticmethod
        def get_device_properties(device):
            return tracer_cuda.triton_properties()

        @staticmethod
        def load_binary(name, binary, shared, device):
            raise VmError("compiled binaries are not loaded: the vm runs TTIR")

    @classmethod
    def is_active(cls): return True
    def map_python_to_cpp_type(self, ty): return ty
    def get_current_target(self): return current_target()
    def get_active_torch_device(self): return torch_device
    def get_device_interface(self): return torch.cuda if torch_device.type == "cuda" else torch.cpu
    def get_current_device(self): return 0
    def set_current_device(self, device): pass
    def get_current_stream(self, device=0): return 0
    def get_device_capability(self, device=0): return tracer_cuda.capability()
    def get_benchmarker(self): return do_bench
    def get_empty_cache_for_benchmark(self): return torch.empty(1)
    def clear_cache(self, cache): pass
    def assemble_tensormap_to_arg(self, tensormaps_info, args): return args


def do_bench(fn=None, *args, quantiles=None, grad_to_none=None, return_mode="mean", **kwargs):
    """triton.testing.do_bench: fn runs once, its time (ms) is the prediction for what it
    launched."""
    if fn is None:
        fn = args[0] if args else kwargs["kernel_call"]
    with vm_cost.Stopwatch() as watch:
        fn()
    for tensor in grad_to_none or ():
        tensor.grad = None
    ms = watch.seconds * 1e3
    if quantiles:
        return [ms] * len(quantiles) if len(quantiles) > 1 else ms
    return [ms] if return_mode == "all" else ms


prune_configs = Autotuner.prune_configs


def prune_to_limit(self, kwargs):
    """The first `configs_max` that differ in more than warps and stages; those that differ in
    nothing else share one TTIR."""
    configs, seen, kept = prune_configs(self, kwargs), set(), []
    for config in configs:
        seen.add(str(sorted(config.kwargs.items(), key=lambda item: item[0])))
        if len(seen) > configs_max:
            break
        kept.append(config)
    return kept


def install(path, threads=0, check=False, cost=False, device="cpu", configs=24, fma_contract=False):
    global flags, torch_device, configs_max
    load_library(path, threads)
    torch_device = torch.device(device)
    flags = sum(flag for flag, is_set in ((FLAG_CHECK, check), (FLAG_COST, cost),
                                          (FLAG_CUDA, torch_device.type == "cuda"), (FLAG_FMA, fma_contract)) if is_set)
    configs_max = configs
    triton.runtime.driver.set_active(Driver())
    triton.compile = triton.compiler.compile = triton.compiler.compiler.compile = compile_for_vm
    Autotuner.prune_configs = prune_to_limit
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = do_bench
    knobs.runtime.interpret = False
    if check:
        knobs.runtime.debug = True     # device_assert is compiled in
