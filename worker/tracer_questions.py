"""tracer_questions: what torch asks its driver, where no driver is.

A machine without a GPU answers some questions otherwise than one that has one: no device is
counted, no context is there, a snapshot of memory is empty, a handle is an exception. Host code
that asks could do right work here and other work elsewhere, in both traces alike. So what has an
answer here answers as elsewhere (tracer_cuda), what is the same without a GPU is torch's own, and
the candidate that asks for anything else is refused, whatever comes of it.
"""
import sys
import types

import torch

import tracer_cuda
import tracer_drawn
import tracer_driver

# Functions that say the same without a GPU, or for which nothing is to be done.
SAME = frozenset((
    "get_gencode_flags", "get_sync_debug_mode", "set_sync_debug_mode", "get_allocator_backend", "check_error",
    "is_available", "version", "initial_seed", "current_accelerator", "current_device_index", "current_device_idx",
    "device_count", "set_device_index", "set_device_idx", "_get_device_index", "_is_compiled",
    "set_per_process_memory_fraction", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "_get_privateuse1_backend_name", "_cuda_isInBadFork", "_cuda_getCompiledVersion", "_cuda_getArchFlags",
    "_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit", "_cuda_getAllocatorBackend",
    "_cuda_get_sync_debug_mode", "_nccl_version", "_accelerator_getAccelerator"))
OF_C = ("_cuda_", "_cudnn_", "_cufft_", "_nccl_", "_accelerator_", "_get_accelerator", "_host_emptyCache")


def owners():
    """Whose functions ask the driver, and how those names begin."""
    cuda, accelerator = torch.cuda, torch.accelerator
    for module in (cuda, cuda.memory, cuda.random, cuda.nccl, cuda.graphs, cuda.jiterator, accelerator,
                   accelerator.memory):
        yield module, (module.__name__,)
    yield torch._C, OF_C
    if hasattr(torch._C, "_cudart"):
        yield torch._C._cudart, ("cuda",)


def refusing(name, real):
    """The candidate's own call is refused, torch's are torch's."""
    def asked(*args, **kwargs):
        if sys._getframe(1).f_code.co_filename in tracer_drawn.FILES:
            tracer_cuda.RECORDER.fail(
                "unsupported", f"host code asks the GPU's driver by {name}, and a trace has none: what it does may not "
                               "depend on that")
        return real(*args, **kwargs)
    tracer_cuda.shows(asked, real)
    return asked


def install(disguise):
    """In the zygote, behind tracer_cuda's answers. disguise: gives a function a name and a file."""
    made = {}
    for owner, begins in owners():
        for name, real in list(vars(owner).items()):
            home = name if owner is torch._C else getattr(real, "__module__", None) or name
            if (not isinstance(real, (types.FunctionType, types.BuiltinFunctionType)) or name in SAME
                    or not home.startswith(begins) or tracer_drawn.is_ours(real)):
                continue
            if id(real) not in made:
                made[id(real)] = refusing(f"{owner.__name__}.{name}", real), real
                disguise(made[id(real)][0], name, getattr(real, "__module__", None) or owner.__name__)
            setattr(owner, name, made[id(real)][0])
    # What reaches further by attributes, and classes that begin with memory of the driver's.
    for cls, name in ((torch.backends.cuda.cuFFTPlanCacheManager, "__getattr__"),
                      (torch.backends.cuda.cuFFTPlanCacheManager, "__getitem__"),
                      (torch.UntypedStorage, "resize_"), (torch.UntypedStorage, "_share_cuda_"),
                      (tracer_driver.Driver, "get_empty_cache_for_benchmark"),
                      (torch.cuda.MemPool, "__init__"), (torch.cuda.CUDAPluggableAllocator, "__init__")):
        real = getattr(cls, name)
        asked = refusing(f"{cls.__name__}.{name}", real)
        disguise(asked, f"{cls.__name__}.{name}", cls.__module__)
        setattr(cls, name, asked)
    module_of = torch.get_device_module

    def get_device_module(device=None):
        return torch.cuda if device is None else module_of(device)
    activities = {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA}

    def supported_activities():
        is_theirs = sys._getframe(1).f_code.co_filename in tracer_drawn.FILES
        return set(activities) if is_theirs else real_activities()
    real_activities = torch.profiler.supported_activities
    for owner, name, answer in ((torch, "get_device_module", get_device_module),
                                (torch.profiler, "supported_activities", supported_activities)):
        tracer_cuda.shows(answer, getattr(owner, name))
        disguise(answer, name, getattr(owner, name).__module__)
        setattr(owner, name, answer)
