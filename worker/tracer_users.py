"""tracer_users: a process that is set otherwise than by default, as its user may have done for
reasons of his own: what forward does may not depend on that.

Each setting is another legal one. What a process is set to for products of matrices (tf32) and the
default dtype are left alone: honest host code asks for these.
"""
import asyncio
import contextlib
import copy
import decimal
import faulthandler
import gc
import io
import logging
import multiprocessing.process
import sys
import threading
import tracemalloc
import warnings

import numpy
import torch
import torch.multiprocessing
import torch.utils.data._utils.worker as data_worker
import triton
from torch.distributed import distributed_c10d
from torch.overrides import TorchFunctionMode

import tracer_process
from tracer_words import Words, others_in


class Unraised(Warning):
    """A warning that nobody gives."""


class Nothing(TorchFunctionMode):
    """Hears of torch's functions, and lets them be."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Logger(logging.Logger):
    """As a library may have set it for all loggers to come."""


def spawned():
    """What a process that another one has started says of itself."""
    other = copy.copy(multiprocessing.process._current_process)
    other._name, other._config = "SpawnProcess-3", dict(other._config, daemon=True)
    return other


RUNNING = asyncio._set_running_loop     # before host code's own calls of it are watched
USED_AT = object.__basicsize__          # where a dict keeps how many things it holds


class Levels:
    """The level of the root logger. Its setLevel goes through all loggers, to make each forget what
    it has answered, and so copies their pages; nearly none has answered anything."""

    def __init__(self):
        self.then = dict(logging.root.manager.loggerDict)
        caches = [logger._cache for logger in (logging.root, *self.then.values()) if isinstance(logger, logging.Logger)]
        self.caches = sorted(caches, key=id)
        for cache in self.caches:
            cache.clear()
        self.used = Words([id(cache) + USED_AT for cache in self.caches])

    def put(self, level):
        logging.root.level = level
        for i in self.used.others():
            self.caches[i].clear()
        loggers = logging.root.manager.loggerDict
        for name in others_in(loggers, self.then):
            if isinstance(loggers[name], logging.Logger):
                loggers[name]._cache.clear()


LEVELS = None


def install():
    """In the zygote, when every logger is there."""
    global LEVELS
    LEVELS = Levels()


def numbers(end):
    """(what reads a setting, what sets it, a value far below the usual one or far above it): a
    bound of the candidate's lies on one side."""
    of = lambda owner, name: (lambda: getattr(owner, name), lambda value: setattr(owner, name, value))
    yield (*of(torch._tensor_str.PRINT_OPTS, "precision"), (1, 12)[end])
    limit = sys.getrecursionlimit()
    yield sys.getrecursionlimit, sys.setrecursionlimit, (limit - 100, limit + (1 << 20))[end]
    yield sys.getswitchinterval, sys.setswitchinterval, (1e-5, 3600.0)[end]
    yield sys.get_int_max_str_digits, sys.set_int_max_str_digits, (0, 1 << 20)[end]
    yield gc.get_threshold, lambda value: gc.set_threshold(*value), ((60, 3, 2), (1 << 30, 1 << 20, 1 << 20))[end]
    yield lambda: logging.root.level, lambda level: LEVELS.put(level), (logging.DEBUG, logging.CRITICAL)[end]


def pairs():
    """(what reads a setting, what sets it, another value)."""
    cuda, autograd = torch.backends.cuda, torch.autograd
    flag = lambda get, put: (get, put, not get())
    of = lambda owner, name: (lambda: getattr(owner, name), lambda value: setattr(owner, name, value))
    # Of torch's libraries, and of torch itself.
    yield flag(torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark)
    yield flag(torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic)
    yield flag(cuda.flash_sdp_enabled, cuda.enable_flash_sdp)
    yield flag(cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp)
    yield flag(cuda.math_sdp_enabled, cuda.enable_math_sdp)
    yield flag(cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp)
    yield flag(torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled)
    yield flag(torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled)
    yield flag(torch.is_warn_always_enabled, torch.set_warn_always)
    yield flag(*of(torch.utils.deterministic, "fill_uninitialized_memory"))
    yield flag(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)
    yield flag(autograd.is_view_replay_enabled, torch._C._set_view_replay_enabled)
    yield flag(torch.__future__.get_swap_module_params_on_conversion,
               torch.__future__.set_swap_module_params_on_conversion)
    yield flag(torch.__future__.get_overwrite_module_params_on_conversion,
               torch.__future__.set_overwrite_module_params_on_conversion)
    # One process of several that share the work, or that load data.
    yield (*of(distributed_c10d._world, "default_pg"), object())
    yield (*of(data_worker, "_worker_info"), object())
    yield (*of(multiprocessing.process, "_current_process"), spawned())
    yield (*of(multiprocessing.process, "_parent_process"), object())
    yield (*of(multiprocessing.context._default_context, "_actual_context"), multiprocessing.get_context("spawn"))
    yield (*of(torch.multiprocessing, "_sharing_strategy"), "file_system")
    # Of Python's interpreter and of its libraries.
    yield (*of(faulthandler, "is_enabled"), lambda: True)
    yield (*of(tracemalloc, "is_tracing"), lambda: True)
    yield flag(lambda: cuda.matmul.allow_fp16_reduced_precision_reduction,
               lambda value: setattr(cuda.matmul, "allow_fp16_reduced_precision_reduction", value))
    yield (*of(logging.root, "handlers"), [*logging.root.handlers, logging.NullHandler()])
    yield (*of(warnings, "filters"), [("error", None, Unraised, None, 0), *warnings.filters])
    yield (*of(sys, "excepthook"), lambda *args: sys.__excepthook__(*args))
    yield (*of(sys, "displayhook"), lambda value: sys.__displayhook__(value))
    yield (*of(sys, "unraisablehook"), lambda what: sys.__unraisablehook__(what))
    yield (*of(sys, "breakpointhook"), lambda *args, **kwargs: None)
    yield (*of(threading, "excepthook"), lambda args: threading.__excepthook__(args))
    yield (*of(warnings, "showwarning"), lambda *args, **kwargs: None)
    yield (*of(logging, "_loggerClass"), Logger)
    yield flag(*of(logging, "raiseExceptions"))
    yield (*of(logging.root.manager, "disable"), 1)
    # How Python was started.
    yield (*of(sys, "warnoptions"), ["default"])
    yield (*of(sys, "_xoptions"), {"dev": True})
    yield (*of(sys, "pycache_prefix"), "/srv/cache")
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix", "executable"):
        yield (*of(sys, name), f"/srv/{name}")
    for module in (torch, triton, numpy):
        yield (*of(module, "__file__"), f"/srv/{module.__name__}/__init__.py")
    yield (sys.get_coroutine_origin_tracking_depth, sys.set_coroutine_origin_tracking_depth, 1)


def flags_otherwise():
    """sys.flags of a Python with options; whether asserts run is in the texts, and stays."""
    flags = tracer_process.FLAGS
    return flags._replace(**{name: type(value)(not value) for name, value in flags._asdict().items()
                             if name not in ("optimize", "int_max_str_digits")})


def held(value):
    return list(value) if type(value) is list else value


DEFAULTS, USUAL = [[held(get()) for get, _, _ in made] for made in (pairs(), numbers(0))]


@contextlib.contextmanager
def put_others(settings, defaults):
    """What host code has set itself stays as it is."""
    with contextlib.ExitStack() as stack:
        for (get, put, other), default in zip(settings, defaults):
            if get() == default:
                stack.callback(put, get())
                put(other)
        yield


@contextlib.contextmanager
def set_lower():
    with put_others(numbers(0), USUAL):
        yield


@contextlib.contextmanager
def set_otherwise():
    with put_others(pairs(), DEFAULTS), put_others(numbers(1), USUAL), contextlib.ExitStack() as stack:
        stack.callback(setattr, sys, "path", sys.path)
        sys.path = [*sys.path, *(f"/srv/part{i}" for i in range(200))]
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.callback(setattr, sys, "stdin", sys.stdin)
        sys.stdin = io.StringIO()
        # What runs in a notebook runs in a loop.
        stack.callback(RUNNING, asyncio._get_running_loop())
        RUNNING(object())
        stack.callback(lambda hooks: sys.set_asyncgen_hooks(*hooks), sys.get_asyncgen_hooks())
        sys.set_asyncgen_hooks(lambda made: None, lambda gone: None)
        stack.enter_context(Nothing())
        # Hooks on all modules, what a backward pass would keep, and what
        # Python has in one prompt only.
        stack.callback(torch.nn.modules.module.register_module_forward_hook(lambda *args: None).remove)
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
        stack.enter_context(torch.autocast("cpu", torch.bfloat16))
        stack.enter_context(decimal.localcontext(decimal.Context(prec=41, rounding=decimal.ROUND_UP)))
        stack.enter_context(numpy.errstate(all="raise"))
        stack.enter_context(numpy.printoptions(precision=5, threshold=7))
        stack.callback(setattr, sys, "flags", sys.flags)
        sys.flags = flags_otherwise()
        # Somebody listens to loggers that the candidate has made.
        loggers = logging.root.manager.loggerDict
        for logger in [loggers[name] for name in others_in(loggers, LEVELS.then)]:
            if isinstance(logger, logging.Logger):
                stack.callback(setattr, logger, "handlers", logger.handlers)
                logger.handlers = [*logger.handlers, logging.NullHandler()]
        for name, value in (("ps1", ">>> "), ("tracebacklimit", 60), ("last_type", ValueError),
                            ("last_value", ValueError()), ("last_traceback", None)):
            setattr(sys, name, value)
            stack.callback(delattr, sys, name)
        yield
