"""vm_shim: scripts written for CUDA, on CPU tensors (`hone vm --cuda-shim`).

Every tensor lies in ordinary memory and says that it is on cuda:0; every device argument that names
CUDA becomes the CPU on its way into PyTorch. Moving between devices copies, as it would between two
memories: a kernel that writes to x.cuda() must not change x. Only a tensor known to be made "on
CUDA" is returned as it is. torch.cuda answers as an H200 would (tracer_cuda.py); times of events
are predictions (vm_cost.py).
"""
import functools
import sys
import types
import warnings

import torch
import torch.amp.autocast_mode
import torch.utils._device

import tracer_cuda
import vm_cost
import vm_graph

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")


def is_cuda(device):
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device.startswith("cuda")
    return isinstance(device, int) and not isinstance(device, bool)


def here(device):
    return CPU if is_cuda(device) else device


def mark(tensor):
    """Remembers that this memory stands for the GPU's."""
    if isinstance(tensor, torch.Tensor):
        try:
            tensor.untyped_storage().is_hone_cuda = True
        except (RuntimeError, NotImplementedError, AttributeError):
            pass               # a subclass without memory of its own
    return tensor


def is_marked(tensor):
    try:
        return getattr(tensor.untyped_storage(), "is_hone_cuda", False)
    except (RuntimeError, NotImplementedError, AttributeError):
        return True


# ---- functions that take a device ----

def taking_device(function):
    """The function with its keyword argument `device` led to the CPU."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        device = kwargs.get("device")
        if kwargs.pop("pin_memory", None) and device is None:
            return function(*args, **kwargs)
        if device is None or not is_cuda(device):
            return function(*args, **kwargs)
        kwargs["device"] = CPU
        return mark(function(*args, **kwargs))
    return call


def moved(tensor, out, to_cuda):
    """The result of a move: a copy where torch found that there was nothing to do, but two memories
    would have been involved."""
    if out is tensor and not (to_cuda and is_marked(tensor)):
        out = tensor.clone()
    return mark(out) if to_cuda else out


def tensor_to(original):
    @functools.wraps(original)
    def to(self, *args, **kwargs):
        names_device = [a for a in (*args[:1], kwargs.get("device"))
                        if isinstance(a, (torch.device, str)) or (isinstance(a, int) and not isinstance(a, bool))]
        if not names_device:
            return original(self, *args, **kwargs)
        if "device" in kwargs:
            kwargs["device"] = here(kwargs["device"])
        else:
            args = (here(args[0]), *args[1:])
        out = original(self, *args, **kwargs)
        if str(names_device[0]) == "meta":
            return out
        return moved(self, out, is_cuda(names_device[0]))
    return to


def tensor_type(original):
    """x.type() names CUDA, x.type("torch.cuda.HalfTensor") converts."""
    @functools.wraps(original)
    def type_of(self, dtype=None, non_blocking=False, **kwargs):
        if dtype is None:
            return original(self).replace("torch.", "torch.cuda.", 1)
        return original(self, dtype.replace("torch.cuda.", "torch.") if isinstance(dtype, str) else dtype, non_blocking)
    return type_of


def install_tensor():
    tensor = torch.Tensor
    real_device = torch._C.TensorBase.device

    # Every tensor says that it lies on the GPU, and stays where it is.
    def device(self):
        found = real_device.__get__(self)
        return CUDA if found.type == "cpu" else found

    tensor.device = property(device)
    tensor.is_cuda = property(lambda self: device(self).type == "cuda")
    tensor.is_cpu = property(lambda self: False)
    tensor.get_device = lambda self: 0
    tensor.to = tensor_to(tensor.to)
    tensor.cuda = lambda self, device=None, non_blocking=False, memory_format=None: moved(self, self, True)
    tensor.cpu = lambda self, memory_format=None: moved(self, self, False)
    tensor.type = tensor_type(tensor.type)
    tensor.pin_memory = lambda self, device=None: self
    tensor.is_pinned = lambda self, device=None: False
    tensor.record_stream = lambda self, stream: None
    # What makes a tensor may name the GPU.
    for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty_strided"):
        setattr(tensor, name, taking_device(getattr(tensor, name)))
    make = torch.Tensor._make_wrapper_subclass

    def make_wrapper_subclass(*args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = here(kwargs["device"])
        return make(*args, **kwargs)
    tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)


def install_factories():
    torch.utils._device._device_constructors()     # remembered by identity: before any of them is replaced
    names = [n for n in dir(torch) if n in FACTORIES]
    for name in names:
        setattr(torch, name, taking_device(getattr(torch, name)))
    for name in ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool"):
        setattr(torch.cuda, name + "Tensor", getattr(torch, name + "Tensor"))
    torch.set_default_device = lambda device: None
    torch.set_default_tensor_type = lambda kind: None
    torch.get_default_device = lambda: CUDA
    context = torch.utils._device.DeviceContext
    make = context.__init__
    context.__init__ = lambda self, device: make(self, here(torch.device(device)))
    load = torch.load
    torch.load = functools.wraps(load)(lambda *args, **kwargs: load(*args, **dict(kwargs, map_location="cpu")))

    class Generator(torch._C.Generator):
        def __new__(cls, device=None):
            return torch._C.Generator.__new__(cls, "cpu")
    torch.Generator = Generator


FACTORIES = frozenset("""empty empty_strided empty_like zeros zeros_like ones ones_like full full_like rand rand_like
    randn randn_like randint randint_like randperm arange range linspace logspace eye tensor as_tensor asarray
    scalar_tensor normal tril_indices triu_indices complex polar from_file frombuffer hann_window hamming_window
    bartlett_window blackman_window kaiser_window sparse_coo_tensor sparse_csr_tensor empty_permuted""".split())


# ---- autocast, custom operators, compilation ----

def of_cpu(args):
    """Arguments whose first, a device's type, may be left out: then, and for "cuda", it is
    "cpu"."""
    if not args or not isinstance(args[0], str):
        return "cpu", *args
    return "cpu" if args[0] == "cuda" else args[0], *args[1:]


def install_autocast():
    """Autocast for CUDA is the CPU's: the same kinds of operators in the same type."""
    autocast = torch.amp.autocast_mode.autocast
    make = autocast.__init__

    def init(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        make(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    autocast.__init__ = init
    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        original = getattr(torch, name)
        setattr(torch, name, functools.wraps(original)(lambda *args, original=original: original(*of_cpu(args))))
    torch.amp.is_autocast_available = torch.amp.autocast_mode.is_autocast_available = lambda device_type: True
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("cpu")


def cpu_key(key):
    """A dispatch key or a device type (or several) with CUDA led to the CPU."""
    if isinstance(key, str):
        return {"cuda": "cpu", "CUDA": "CPU", "AutogradCUDA": "AutogradCPU", "AutocastCUDA": "AutocastCPU"}.get(key,
            key)
    return type(key)(map(cpu_key, key)) if isinstance(key, (list, tuple)) else key


def install_library():
    library = torch.library
    make, impl = library.Library.__init__, library.Library.impl

    # A library for CUDA registers for the CPU.
    def init(self, ns, kind, dispatch_key=""):
        make(self, ns, kind, cpu_key(dispatch_key))
        self.dispatch_key = dispatch_key         # what an implementation is registered for unless it says so

    library.Library.__init__ = init
    cuda_impls = set()

    def implement(self, op, fn, dispatch_key="", **kwargs):
        """Of implementations for both devices CUDA's wins, whichever comes first."""
        key, name = dispatch_key or self.dispatch_key, (self.ns, str(op))
        if key == "CPU" and name in cuda_impls:
            return None
        if cpu_key(key) == key:
            return impl(self, op, fn, dispatch_key, **kwargs)
        cuda_impls.add(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")      # torch warns of a kernel that is replaced
            return impl(self, op, fn, cpu_key(key), **dict(kwargs, allow_override=True))

    library.Library.impl = implement
    # The decorators name devices too.
    custom_op, register_kernel = library.custom_op, library.register_kernel

    def custom(name, fn=None, /, *, device_types=None, **kwargs):
        return custom_op(name, fn, device_types=cpu_key(device_types), **kwargs)

    library.custom_op = custom
    library.register_kernel = lambda op, device_types, *args, **kwargs: register_kernel(op, cpu_key(device_types),
        *args, **kwargs)


def unchanged(function=None, *args, **kwargs):
    """torch.compile and torch.jit.script without effect: what they make has no kernels of the
    script's."""
    return function if callable(function) else lambda f: f


# ---- torch.cuda beyond tracer_cuda.py ----

LOOP_MS = 5.0    # added where a benchmark measures


class Event(tracer_cuda.Event):
    """Elapsed time is the predicted time of what was launched between two events. Copies of
    Triton's do_bench repeat a function for a given time: in them 5 ms are added, which keeps the
    order of what they compare and lets their loops end after a few turns."""

    at_s = None

    def __init__(self, *args, **kwargs):
        vm_cost.watch_everything()

    def record(self, stream=None):
        self.at_s = vm_cost.clock_s

    def elapsed_time(self, end):
        predicted = max((end.at_s or 0.0) - (self.at_s or 0.0), 1e-6) * 1e3
        return predicted + (LOOP_MS if "bench" in sys._getframe(1).f_code.co_name else 0.0)


class Runtime:
    """torch.cuda.cudart(): calls of the runtime, which succeed and do nothing."""

    def __getattr__(self, name):
        return lambda *args: 0


def install_cuda():
    tracer_cuda.install()
    cuda, constant = torch.cuda, lambda value: lambda *args, **kwargs: value
    tracer_cuda.Stream.record_event = lambda self, event=None: (event or Event()).record(self) or event
    # What torch.cuda is asked most, answered for one GPU with little to tell.
    answers = dict(
        Event=Event, clock_rate=constant(1980), power_draw=constant(0), temperature=constant(0),
        cudart=constant(Runtime()),
        check_error=constant(None), memory_snapshot=constant([]),
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        get_rng_state_all=lambda: [torch.get_rng_state()],
        set_rng_state_all=lambda states: torch.set_rng_state(states[0]),
        initial_seed=torch.initial_seed, seed=torch.default_generator.seed, seed_all=constant(None),
        manual_seed=torch.default_generator.manual_seed,
        manual_seed_all=constant(None),
        default_generators=(torch.default_generator,), reset_max_memory_allocated=constant(None),
        reset_max_memory_cached=constant(None),
        memory_summary=constant(""),
        reset_accumulated_memory_stats=constant(None), memory_cached=constant(0), utilization=constant(0),
        _sleep=constant(None),
        get_sync_debug_mode=constant(0),
        set_sync_debug_mode=constant(None), get_gencode_flags=constant(""), is_built=constant(True),
        device_memory_used=constant(0),
        set_per_process_memory_fraction=constant(None),
    )
    for name, value in answers.items():
        setattr(cuda, name, value)
    # Namespaces beside it: profiling, graphs, streams and events.
    cuda.nvtx = types.SimpleNamespace(range_push=constant(0), range_pop=constant(0), mark=constant(None),
                                      range=tracer_cuda.Device, range_start=constant(0), range_end=constant(None))
    cuda.profiler.cudart, cuda.profiler.check_error = cuda.cudart, cuda.check_error
    vm_graph.install()
    torch.Stream, torch.Event = tracer_cuda.Stream, Event
    torch.version.cuda = "12.8"
    torch.backends.cuda.is_built = constant(True)
    # torch.accelerator asks the same under other names, in the versions that have it.
    for name, value in dict(is_available=True, current_accelerator=torch.device("cuda"), device_count=1,
                            current_device_index=0, current_device_idx=0, synchronize=None, set_device_index=None,
                            set_device_idx=None, current_stream=tracer_cuda.Stream(), empty_cache=None).items():
        if hasattr(torch, "accelerator"):
            setattr(torch.accelerator, name, constant(value))
    torch.get_device_module = lambda device=None: torch.cuda if device is None or is_cuda(device) else getattr(torch,
        torch.device(device).type)


def install():
    install_cuda()
    install_tensor()
    install_factories()
    install_autocast()
    install_library()
    torch.compile = unchanged
    torch.jit.script = unchanged
