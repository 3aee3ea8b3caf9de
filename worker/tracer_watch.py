"""tracer_watch: what the sandbox refuses, watched in the second trace. Host code would be told by a
refusal that it is traced, so whoever tries is refused as a candidate, whatever comes of it. So is
host code that looks at its callers, or keeps something where no object of Python's shows it.
"""
import _asyncio
import _codecs
import _locale
import _thread
import asyncio
import codecs
import ctypes
import importlib.machinery
import inspect
import linecache
import locale
import os
import posix
import random
import sys
import threading

import torch

import tracer_disguise
import tracer_drawn
import tracer_driver
import tracer_seal

# Events of the interpreter (sys.addaudithook) by their first words, and what host code does there.
# Here it would be told by a refusal that it is traced, so whoever tries is refused, whatever comes
# of it.
EVENTS = {"open": "a file", "os.listdir": "a folder", "os.scandir": "a folder", "os.chdir": "a folder",
          "os.mkdir": "a folder", "os.remove": "a file", "os.rename": "a file", "os.link": "a file",
          "os.symlink": "a file", "os.truncate": "a file", "os.utime": "a file", "os.chmod": "a file",
          "subprocess.Popen": "other processes", "os.system": "other processes", "os.fork": "other processes",
          "os.forkpty": "other processes", "os.exec": "other processes", "os.posix_spawn": "other processes",
          "os.spawn": "other processes", "os.kill": "other processes", "os.killpg": "other processes",
          "_thread.start_new_thread": "threads", "socket.__new__": "the network", "socket.gethostbyname": "the network",
          "socket.getaddrinfo": "the network", "ctypes.dlopen": "the process's memory",
          "ctypes.dlsym": "the process's memory", "ctypes.string_at": "the process's memory",
          "ctypes.call_function": "the process's memory", "ctypes.cdata": "the process's memory",
          "fcntl.ioctl": "a device", "resource.setrlimit": "limits", "sys._current_frames": "the frames of its callers",
          "gc.get_objects": "the process's memory", "gc.get_referrers": "the process's memory"}
# What the kernel, or a library written in C, keeps for host code beside all objects of Python.
DESCRIPTORS = [(module, name) for module in (os, posix) for name in (
    "pipe", "pipe2", "eventfd", "eventfd_read", "eventfd_write", "memfd_create", "dup", "dup2", "lseek", "read",
    "readv", "pread", "openpty", "pidfd_open") if hasattr(module, name)]
REGISTRIES = [(module, name) for module, names in (
    (codecs, ("register", "register_error", "lookup_error")), (_codecs, ("register", "register_error", "lookup_error")),
    (locale, ("textdomain", "bindtextdomain", "bind_textdomain_codeset")),
    (_locale, ("textdomain", "bindtextdomain", "bind_textdomain_codeset")),
    (_asyncio, ("_set_running_loop",)), (asyncio.events, ("_set_running_loop",)), (asyncio, ("_set_running_loop",)))
    for name in names if hasattr(module, name)]
FOLDERS = (*(p for p in sys.path if p), os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)))
READABLE = (*FOLDERS, *map(os.path.realpath, FOLDERS))
HERE = os.path.dirname(os.path.abspath(__file__))
CANDIDATE_FILE = "candidate.py"
READERS = (inspect.__file__, linecache.__file__)
REAL = {name: getattr(posix, name) for name in ("stat", "lstat", "access", "statvfs", "readlink", "fstat", "isatty")}
LOOKS = ("open", "os.listdir", "os.scandir")      # at what libraries consist of whoever imports one looks
MACHINERY = "<frozen importlib"
LOADERS = (importlib.machinery.SourceFileLoader, importlib.machinery.SourcelessFileLoader)
# Events that make code, and which argument is the name of its file; of marshal.loads nobody can
# say.
MAKE_CODE = {"compile": 1, "code.__new__": 1, "marshal.loads": None}


def is_candidates_doing():
    """Whether the candidate's code is among the callers, however far, and no module that is being
    imported stands between: those read their own files. The names of files that this goes by are
    nobody's to give (is_foreign_code)."""
    inner, frame = None, watch.frame_of(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == CANDIDATE_FILE:
            return True
        if name.startswith(HERE) or name.startswith(MACHINERY) and (is_import(inner, frame) or is_cache(frame)):
            return False
        inner, frame = frame, frame.f_back
    return False


def is_import(inner, frame):
    """A library's module that the machinery of imports executes or, if it is one in C, makes. Its
    other functions are anybody's to call, with any path."""
    if inner is not None and inner.f_code.co_name == "<module>" and is_readable(inner.f_code.co_filename):
        return True
    behind = frame.f_back
    return (frame.f_code.co_name == "_call_with_frames_removed" and behind is not None
            and behind.f_code.co_filename.startswith(MACHINERY) and behind.f_code.co_name == "create_module")


def is_cache(frame):
    """A library's loader that writes what it has compiled beside the source, where nobody did so
    before; it goes on without where it may not."""
    behind = frame.f_back
    return (frame.f_code.co_name == "_cache_bytecode" and behind is not None
            and behind.f_code.co_filename.startswith(MACHINERY) and behind.f_code.co_name == "get_code"
            and type(behind.f_locals.get("self")) in LOADERS and is_readable(behind.f_locals.get("source_path")))


def is_foreign_code(event, args):
    """Code that would pass for a library's by the name of its file, made by another than the
    loaders of modules."""
    place = MAKE_CODE[event]
    name = args[place] if place is not None else "<frozen"
    name = os.fsdecode(name) if isinstance(name, (str, bytes)) else ""
    if not name.startswith(("/", "<frozen")):
        return False
    loader = watch.frame_of(2)
    while loader is not None and loader.f_code.co_filename.startswith(MACHINERY):
        if loader.f_code.co_name == "get_code" and type(loader.f_locals.get("self")) in LOADERS:
            return False
        loader = loader.f_back
    return True


def refuse(what):
    if tracer_driver.RECORDER is not None:
        tracer_driver.RECORDER.fail("unsupported", f"host code looks at {what}: what it does may not depend on that")


def is_readable(path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    path = os.fsdecode(path)
    return (os.path.basename(path) == CANDIDATE_FILE or path.startswith(READABLE)
            or any(p.startswith(f"{path}/") for p in READABLE))


def is_for_source(path):
    """Whether Python's own search for a function's text asks for the candidate's file."""
    caller = watch.frame_of(2)
    return path == GLOBALS.get("__file__") and not {caller.f_code.co_filename, caller.f_back.f_code.co_filename
                                                    }.isdisjoint(READERS)


def watched(real, what, is_fine=lambda first: False):
    def call(*args, **kwargs):
        first = args[0] if args else next(iter(kwargs.values()), 0)
        is_path = (real is REAL["lstat"] and watch.frame_of(1).f_code.co_name == "_joinrealpath"      # links alone
                   or is_for_source(first))
        if not watch.is_busy and not is_path and not is_fine(first) and is_candidates_doing():
            refuse(f"{what} ({first})" if type(first) is str else what)
        return real(*args, **kwargs)
    return call


def watch(event, args):
    """Host code that looks at its callers, or at what the sandbox refuses, can tell who calls it;
    nothing of a module needs that."""
    what = EVENTS.get(event)
    if event in MAKE_CODE and is_foreign_code(event, args):
        what = "how code is told apart: it made some under the name of a library's file"
    is_frame = event == "sys._getframe" or event == "object.__getattr__" and (
        args[1] in FRAME_NAMES or args[1] == "__code__" and args[0].__globals__ is GLOBALS)
    if (event == "object.__getattr__" and args[1] in CODE_NAMES and id(args[0]) in tracer_disguise.STAND_INS
            and not watch.frame_of(1).f_code.co_name.startswith("_signature")):      # those are as elsewhere
        what = "how torch's and Triton's functions are made"
    if (event in ("os.putenv", "os.unsetenv") and tracer_seal.is_compilers(os.fsdecode(args[0]))
            and is_candidates_doing()):
        tracer_driver.refuse_changes("the environment")
    if what is None and not is_frame or watch.is_busy or event in LOOKS and is_readable(args[0]):
        return
    watch.is_busy = True
    try:
        if is_frame:
            watch_frames()
        elif is_candidates_doing():
            refuse(what)
    finally:
        watch.is_busy = False


def watch_frames():
    caller = watch.frame_of(2)
    behind = caller.f_back
    if behind is not None and behind.f_code.co_filename == tracer_drawn.CALL:
        behind = behind.f_back
    names = [f.f_code.co_filename for f in (caller, behind) if f is not None]
    readers = ("inspect.py", "traceback.py", "dis.py")
    if names[0] == CANDIDATE_FILE or CANDIDATE_FILE in names and names[0].endswith(readers):
        refuse("the frames of its callers, or its own code")


watch.is_busy, watch.frame_of = False, sys._getframe
events_watch = ctypes.PyDLL(None).events_watch    # sys.addaudithook, for what is worth a call (worker/events.c)
events_watch.argtypes = ctypes.py_object, ctypes.c_char_p
FRAME_NAMES = ("f_code", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "gi_code", "cr_code", "ag_code")
CODE_NAMES = ("__code__", "__defaults__", "__kwdefaults__")
GLOBALS = {}   # the candidate's


def install():
    """In the job's process; what is looked at from here on counts."""
    events_watch(watch, CANDIDATE_FILE.encode())
    for module in (os, posix):
        for name in REAL:
            setattr(module, name, watched(REAL[name], "files", is_readable))
    for module, name in ((os, "urandom"), (posix, "urandom"), (random, "_urandom")):
        setattr(module, name, watched(getattr(module, name), "chance"))
    for module, name in DESCRIPTORS:
        setattr(module, name, watched(getattr(module, name), "descriptors"))
    for module, name in REGISTRIES:
        setattr(module, name, watched(getattr(module, name), "what a library written in C remembers"))
    threading._start_new_thread = _thread.start_new_thread = watched(_thread.start_new_thread, "threads")
