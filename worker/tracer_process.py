"""tracer_process: what the second trace's process says of itself and its machine: an ordinary one's
names, numbers and limits, in the place of a sandboxed one's. What belongs to a process is a drawn
value where host code asks (tracer_drawn.py).
"""
import _thread
import collections
import ctypes
import functools
import gc
import os
import posix
import resource
import socket
import sys
import threading
import types

import torch
import triton.testing

import tracer_cuda
import tracer_disguise
import tracer_drawn
import tracer_driver
from tracer_chance import DRAWN
from tracer_drawn import drawn, is_asked, stand_for, told, unasked

KEPT = []      # modules that sys.modules no longer names


# what own_names says, asked once in the zygote: a look at each module's name touches a thousand
# pages that a fork shares
HIDDEN = []


def own_names():
    """The modules that no ordinary process has."""
    own = ("tracer", "ttir_compile", "zygote", "wire", "output_form")
    return [name for name in sys.modules if name.startswith(own)]


def word():
    return "".join(DRAWN.choices("abcdefghijklmnoprstuvw", k=DRAWN.randrange(3, 9)))


def replace(module, name, tell):
    """Puts `tell` in a function's place; it says of itself what that one says. A copy, since the
    seal has seen the functions of this file as they are."""
    real = getattr(module, name)
    tell = types.FunctionType(tell.__code__, tell.__globals__, name, tell.__defaults__, tell.__closure__)
    tell.__module__ = real.__module__
    tracer_cuda.shows(tell, real)
    tracer_disguise.STAND_INS.add(id(tell))
    stand_for(real, tell)
    setattr(module, name, tell)


def memory_stats(*args):
    """Which numbers there are is torch's to say; how large they are belongs to the process."""
    is_theirs = is_asked()
    return {name: drawn("torch.cuda.memory_stats()") if is_theirs else number
            for name, number in tracer_cuda.STATS.items()}


def mem_get_info(*args):
    """What is free belongs to the process, how much there is to the device."""
    total = tracer_cuda.PROPERTIES.total_memory
    return drawn("torch.cuda.mem_get_info()", low=0) if is_asked() else total - tracer_cuda.USED, total


# Variables that the zygote, the tracer and the libraries in them have set, and few others have.
OF_THE_ZYGOTE = ("TRITON_BACKENDS_IN_TREE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                 "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS")


def install_names():
    """Names by which the tracing modules, its process and its classes could be known."""
    for name in HIDDEN or own_names():
        KEPT.append(sys.modules.pop(name))
    sys.path[:] = [p for p in sys.path if not p.endswith("worker")]
    user = word()
    sys.argv[:] = [drawn("sys.argv", str, ("argv", 0))]
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(HOME=f"/home/{user}", USER=user, LOGNAME=user, CUDA_VISIBLE_DEVICES="0", LANG="C.UTF-8")
    for name in OF_THE_ZYGOTE:
        os.environ.pop(name, None)
    os.environ.__class__ = os.environb.__class__ = Environment
    kernel = tracer_driver.TracedKernel
    # What a compiler would say of a kernel belongs to its version and its card.
    tracer_driver.ASM_MORE = {name: drawn(f"a kernel's {name}", bytes if name == "cubin" else str, ("asm", name))
                              for name in ("ttgir", "llir", "ptx", "cubin")}
    kernel.n_regs, kernel.n_spills = (drawn(f"a kernel's {name}", int, (name, 0), low=low)
                                      for name, low in (("n_regs", 1), ("n_spills", 0)))
    kernel.hash = drawn("a kernel's hash", str, ("kernel", 0))
    tracer_driver.SHARED = drawn("a kernel's shared memory", int, ("shared", 0), low=0)
    used = DRAWN.randrange(1, 1 << 16) << 9
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        replace(torch.cuda, name, told(lambda *args, **kwargs: used, f"torch.cuda.{name}()", low=0))
    tracer_cuda.USED = DRAWN.randrange(1 << 28, 1 << 33)
    # how much is in use; what fails, or is a setting, is as it was
    tracer_cuda.STATS.update((name, used >> DRAWN.randrange(12)) for name in tracer_cuda.STATS if "." in name)
    replace(torch.cuda, "memory_stats", memory_stats)
    replace(torch.cuda, "mem_get_info", mem_get_info)
    torch.cuda.Event.elapsed_time = told(tracer_cuda.Event.elapsed_time, "an event's elapsed time", float,
                                         is_one=lambda events: all(e.is_timed for e in events), low=0)
    for name in ("do_bench", "do_bench_cudagraph"):
        replace(triton.testing, name, told(getattr(triton.testing, name), f"{name}()", float, low=1e-9))


MAPPINGS = {type(os.environ).__getitem__.__code__.co_filename, type(os.environ).get.__code__.co_filename}


class Environment(type(os.environ)):
    """The variables of the environment: whoever asks for one that nobody has set is told so, what
    others have set belongs to the process."""

    OWN = {}      # name -> what host code has written there

    def __getitem__(self, name):
        text = super().__getitem__(name)
        if name in self.OWN:
            return self.OWN[name]
        return drawn(f"the environment's {name}", type(text), ("environment", name)) if self.is_asked() else text

    def __setitem__(self, name, text):
        super().__setitem__(name, "drawn" if type(text) is tracer_drawn.Drawn else text)
        if self.is_asked():
            self.OWN[name] = text

    def __iter__(self):
        return self.refuse() if self.is_asked() else super().__iter__()

    def __len__(self):
        return self.refuse() if self.is_asked() else super().__len__()

    def __repr__(self):
        return self.refuse() if self.is_asked() else super().__repr__()

    def refuse(self):
        tracer_drawn.refused("host code lists the environment: what it does may not depend on that")

    @staticmethod
    def is_asked():
        """Through methods of a mapping, too."""
        frame = sys._getframe(2)
        while frame.f_code.co_filename in MAPPINGS:
            frame = frame.f_back
        return frame.f_code.co_filename in tracer_drawn.FILES


def install_process():
    """What an ordinary process says of itself and its machine, and a sandboxed one does not."""
    # Numbers, names and limits of the process and its machine, drawn for this trace.
    pid, cores, load = DRAWN.randrange(2500, 90000), DRAWN.randrange(5, 250), DRAWN.uniform(0.2, 90)
    group = pid - DRAWN.randrange(2)
    sys.orig_argv[:] = [drawn("sys.orig_argv", str, ("argv", i)) for i in range(2)]
    here, node = f"{os.environ['HOME']}/{word()}", word()
    answers = {
        "getpid": lambda: pid, "getppid": lambda: pid - 21, "getpgrp": lambda: group, "getpgid": lambda of: group,
        "getsid": lambda of: group, "cpu_count": lambda: cores, "nice": lambda by: by, "getcwd": lambda: here,
        "uname": lambda named=os.uname_result: named(("Linux", node, "5.15.0", "#1 SMP", "x86_64")),
        "sched_getaffinity": lambda of: set(range(cores)), "getloadavg": lambda: (load, load * 0.9, load * 0.8)}
    kinds = {"getcwd": str, "getcwdb": bytes, "uname": os.uname_result, "sched_getaffinity": set, "getloadavg": tuple,
             "getlogin": str, "getgroups": list, "getresuid": tuple, "getresgid": tuple, "times": os.times_result,
             "get_terminal_size": os.terminal_size}
    for name in (*answers, "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getlogin",
                 "getcwdb", "getpriority", "sysconf", "times", "get_terminal_size", "umask", "ctermid", "getrandom"):
        real = getattr(os, name)
        answer = told(answers.get(name, real), f"os.{name}()", kinds.get(name, int), is_kept=True)
        stand_for(real, answer)
        setattr(os, name, answer)
        setattr(posix, name, answer)
    for name in ("gethostname", "getfqdn"):
        answer = told(lambda *of: node, f"socket.{name}()", str, is_kept=True)
        stand_for(getattr(socket, name), answer)
        setattr(socket, name, answer)
    for name in ("get_num_threads", "get_num_interop_threads"):
        setattr(torch, name, told(lambda: (cores + 1) // 2, f"torch.{name}()", is_kept=True, low=1))
    many = {resource.RLIMIT_NOFILE: 1 << 20, resource.RLIMIT_NPROC: 1 << 18}
    resource.getrlimit = lambda which: (many.get(which, resource.RLIM_INFINITY),) * 2
    resource.prlimit = lambda of, which, *limits: resource.getrlimit(which)
    gc.isenabled = told(gc.isenabled, "gc.isenabled()", bool, is_kept=True)
    gc.get_freeze_count = told(gc.get_freeze_count, "gc.get_freeze_count()", is_kept=True, low=0)
    install_totals()
    # The worker runs isolated, an ordinary Python does not.
    sys.dont_write_bytecode = False
    sys.flags = FLAGS
    install_threads(pid)
    for name in ("gettrace", "getprofile"):
        setattr(sys, name, unasked(getattr(sys, name), f"sys.{name}()"))
    torch.cuda.device_count = told(torch.cuda.device_count, "torch.cuda.device_count()", is_kept=True, low=1)


def ordinary_flags():
    """sys.flags of a Python that was started without options."""
    flags = {name: getattr(sys.flags, name) for name in dir(sys.flags)
             if not name.startswith(("_", "n_")) and name not in ("count", "index")}
    flags.update(isolated=0, no_user_site=0, ignore_environment=0, dont_write_bytecode=0)
    return collections.namedtuple("flags", flags)(**flags)


FLAGS = ordinary_flags()


def install_totals():
    """What an ordinary process has done by now, of which a traced one has done little."""
    asked = DRAWN.randrange(1 << 16)
    gc.get_count = told(gc.get_count, "gc.get_count()", tuple)
    gc.get_stats = told(gc.get_stats, "gc.get_stats()", list)
    gc.collect = told(gc.collect, "gc.collect()", low=0)
    sys.getallocatedblocks = told(sys.getallocatedblocks, "sys.getallocatedblocks()", low=1)
    sys.getrefcount = told(sys.getrefcount, "sys.getrefcount()", low=1)
    resource.getrlimit = told(resource.getrlimit, "resource.getrlimit()", tuple, is_kept=True)
    resource.getrusage = told(resource.getrusage, "resource.getrusage()", resource.struct_rusage)
    # A cache's own count of calls.
    cache = functools._lru_cache_wrapper
    table = gc.get_referents(cache.__dict__)[0]
    info = table["cache_info"]

    def cache_info(self):
        found = info(self)
        return found._replace(hits=drawn("a cache's hits", low=0) if is_asked() else found.hits + asked)
    table["cache_info"] = cache_info
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cache))


def install_threads(pid):
    """The one thread under other numbers."""
    main, ident = threading.main_thread(), threading.get_ident()
    other = ident ^ 0x3fff << 22
    main._native_id, main._ident = pid, other
    threading._active[other] = threading._active.pop(ident)
    for name, number in (("get_native_id", pid), ("get_ident", other)):
        answer = told(lambda number=number: number, f"threading.{name}()", is_kept=True, low=1)
        real = getattr(_thread, name)
        stand_for(real, answer)
        setattr(threading, name, answer)
        setattr(_thread, name, answer)
    threading.active_count = told(threading.active_count, "threading.active_count()", low=1)
    threading.enumerate = told(threading.enumerate, "threading.enumerate()", list)
    for name in ("ident", "native_id"):
        real = getattr(threading.Thread, name)
        setattr(threading.Thread, name, property(lambda self, real=real, name=name: drawn(
            f"a thread's {name}", int, ("thread", id(self)), low=1) if is_asked() else real.fget(self)))
