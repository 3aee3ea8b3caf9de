"""tracer_settings: what host code can leave in a process beside objects of Python.

Modules written in C keep numbers of their own: the size of a thread's stack, a limit of csv's, how
many functions are called at exit. A forward that moves one of them counts its calls there, where no
walk over objects comes by. An honest forward moves none of them.
"""
import gc
import locale
import os
import resource
import signal
import sys
import threading
import weakref

import torch

LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
# Modules that the zygote need not have, and what is asked of them.
OTHERS = {"_csv": lambda m: (m.field_size_limit(), [(d, vars_of(m.get_dialect(d))) for d in m.list_dialects()]),
          "syslog": lambda m: m.setlogmask(0), "atexit": lambda m: m._ncallbacks(),
          "_abc": lambda m: m.get_cache_token(), "_socket": lambda m: m.getdefaulttimeout(),
          "_tracemalloc": lambda m: (m.is_tracing(), m.get_traceback_limit()),
          "faulthandler": lambda m: m.is_enabled(), "readline": lambda m: m.get_history_length(),
          "mimetypes": lambda m: m.inited, "_ctypes": lambda m: m.get_errno()}


def vars_of(thing):
    """The attributes of an object in C, by name."""
    return [getattr(thing, name) for name in dir(thing) if not name.startswith("__")]


FLAGS = ("_get_", "_is_", "is_", "get_num_", "get_autocast_", "_jit_get_")
NOT_ASKED = ("cuda", "xpu", "mtia", "mps", "dispatch", "accelerator", "thread_name", "torch_function", "grad_enabled",
             "inference_mode", "tracing", "nvfuser")


def asked_of_torch():
    """torch's flags: functions without arguments that answer with a number, a text or a type."""
    found = []
    for name in dir(torch._C):
        is_flag = name.startswith(FLAGS) or name.endswith("_enabled")
        # Others name devices that are not there, or belong to the tracer.
        is_none = any(word in name for word in NOT_ASKED) and not name.startswith("_jit_get_")
        if not is_flag or is_none or type(getattr(torch._C, name)) is not type(len):
            continue
        try:
            value = getattr(torch._C, name)()
        except Exception:
            continue
        if type(value) in (bool, int, str) or type(value).__module__ == "torch":
            found.append((name, getattr(torch._C, name)))
    return found


TORCH_NAMES, TORCH_ASKED = zip(*asked_of_torch())


def put_back(change, neutral):
    """A setting that says what it was only when it is changed."""
    value = change(neutral)
    change(value)
    return value


def settings():
    """{name: value} of what the process keeps; a name may be a pair, for the names in one thing."""
    found = {("torch._C", "flags"): dict(zip(TORCH_NAMES, [ask() for ask in TORCH_ASKED]))}
    for name, ask in OTHERS.items():
        if name in sys.modules:
            found[name] = repr(ask(sys.modules[name]))
    found["what Python is set to"] = repr((
        sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.getdlopenflags(),
        sys.get_coroutine_origin_tracking_depth(), gc.get_threshold(), gc.isenabled(), gc.get_debug(),
        put_back(threading.stack_size, 0), len(weakref.finalize._registry)))
    found["what the process is set to"] = repr((
        put_back(os.umask, 0o077), locale.setlocale(locale.LC_ALL), signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        [resource.getrlimit(which) for which in LIMITS]))
    found["what torch is set to"] = repr((vars(torch._tensor_str.PRINT_OPTS),
                                          put_back(torch._C._jit_set_fusion_strategy, [("STATIC", 20)]),
                                          torch._C._len_torch_function_stack(),
                                          torch._C._functorch.maybe_current_level()))
    return found
