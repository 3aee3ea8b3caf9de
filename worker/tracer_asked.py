"""tracer_asked: what libraries and the interpreter say of the process they are in.

A library has settings, tables of what was registered with it, and places where it lies; the
interpreter has hooks, handlers of signals, modules that are loaded. Whoever uses a candidate has
them as he likes, so nothing of the work may hang on them, and no list could name all. So it is the
other way round: in the second trace whatever plain thing (a number, a text, None, a collection)
host code gets from such a module, by an attribute or by a function that is given nothing of the
task, is a value of the process (tracer_drawn.py), unless it is a constant, a version or a mode of
the table below. What host code has set itself is its own.
"""
import builtins
import collections
import contextvars
import enum
import sys
import threading
import types

import tracer_drawn
from tracer_drawn import DECIDES, TYPE, drawn, facts_of, refused

# Where every module lies, and what found it.
PLACES = ("__file__", "__path__", "__cached__", "__spec__", "__loader__")
# Python's modules that speak of the process; the names of functions in C are those of their own.
PROCESS = frozenset((
    "_abc", "_asyncio", "_csv", "_frozen_importlib", "_frozen_importlib_external", "_imp", "_locale", "_signal",
    "_socket", "_thread", "_tracemalloc", "_warnings", "_weakref", "abc", "asyncio", "atexit", "builtins", "calendar",
    "copyreg", "csv", "faulthandler", "gc", "imp", "importlib", "linecache", "locale", "logging", "mimetypes",
    "multiprocessing", "os", "platform", "posix", "readline", "resource", "select", "shutil", "signal", "site",
    "socket", "sys", "sysconfig", "tempfile", "threading", "tracemalloc", "uuid", "warnings"))
# Libraries whose functions without arguments, and settings, speak of it too.
LIBRARIES = frozenset(("numpy", "torch", "triton"))
# Objects that settings are attributes of, by where their class is.
SETTINGS = ("_frozen_importlib", "calendar", "importlib.metadata", "logging", "torch._dynamo", "torch.backends",
            "torch.jit._state", "torch.utils._config_module", "triton.knobs")
# A name in capitals is a constant, but for these.
PLACE_WORDS = ("HOME", "USER", "PATH", "DIR", "SITE", "ENABLE", "HAS_", "LOAD")
# What is the same in every process of the same versions.
CONSTANT = frozenset((
    "abiflags", "altsep", "api_version", "architecture", "builtin_module_names", "byteorder", "calcsize", "copyright",
    "cuda", "curdir", "defpath", "devnull", "extsep", "find_spec", "float_repr_style", "fsdecode", "fsencode",
    "fspath", "getLevelName", "getdefaultencoding", "getenv", "getenvb", "git_version", "hexversion", "hip",
    "import_module", "intern", "is_finalizing", "linesep", "machine", "maxsize", "maxunicode", "newaxis", "pardir",
    "pathsep", "platform", "python_implementation", "python_version", "python_version_tuple", "reload", "sep",
    "stdlib_module_names", "strerror", "supports_bytes_environ", "system", "version", "version_info"))
# Modes that forward may know and is judged in (tracer_elsewhere.py), and what torch says of the
# device.
MODES = frozenset((
    "_get_tracing_state", "_is_tracing", "_profiler_enabled", "allow_tf32", "are_deterministic_algorithms_enabled",
    "current_device", "device_count", "get_arch_list", "get_autocast_gpu_dtype", "get_default_device",
    "get_default_dtype", "get_deterministic_debug_mode", "get_device_capability", "get_device_name",
    "get_float32_matmul_precision", "initial_seed", "is_anomaly_enabled", "is_autocast_cpu_enabled",
    "is_autocast_enabled", "is_available", "is_bf16_supported", "is_built", "is_compiling",
    "is_current_stream_capturing", "is_deterministic_algorithms_warn_only_enabled", "is_dynamo_compiling",
    "is_exporting", "is_grad_enabled", "is_inference_mode_enabled", "is_initialized", "is_scripting",
    "is_tf32_supported", "is_tracing", "manual_seed", "seed"))
# What other callers have set otherwise (tracer_users.py): honest host code may ask, as long as it
# does the same either way.
OTHERWISE = frozenset((
    "_get_current_dispatch_mode", "_get_current_dispatch_mode_stack", "_get_dispatch_mode", "_get_dispatch_stack_at",
    "_len_torch_dispatch_stack", "_only_lift_cpu_tensors",
    "_current_process", "_get_running_loop", "_is_debug_mode", "_len_torch_function_stack", "_loggerClass",
    "_parent_process", "_tracemalloc.is_tracing", "_weakref.getweakrefcount", "_worker_info", "_xoptions",
    "allow_fp16_reduced_precision_reduction", "cudnn_sdp_enabled", "disable", "dont_write_bytecode", "excepthook",
    "faulthandler.is_enabled", "fill_uninitialized_memory", "flags", "flash_sdp_enabled", "get_asyncgen_hooks",
    "get_coroutine_origin_tracking_depth", "get_int_max_str_digits", "get_printoptions", "get_rank",
    "get_sharing_strategy", "get_start_method", "get_threshold", "get_worker_info", "get_world_size", "geterr",
    "getpreferredencoding", "getrecursionlimit", "getswitchinterval", "is_autocast_cache_enabled",
    "is_view_replay_enabled", "is_warn_always_enabled", "math_sdp_enabled", "mem_efficient_sdp_enabled", "os.name",
    "parent_process", "posix.name", "precision", "ps1", "pycache_prefix", "raiseExceptions",
    "torch.backends.cuda.fp32_precision", "torch.backends.cudnn.benchmark", "torch.backends.cudnn.deterministic",
    "torch.backends.cudnn.enabled", "tracebacklimit", "tracemalloc.is_tracing", "warnoptions"))
# Functions whose answer is of the process whatever it is.
ASKERS = frozenset((("signal", "getsignal"), ("_signal", "getsignal"), ("sys", "exception"),
                    ("importlib.metadata", "distributions"), ("asyncio.events", "get_event_loop_policy"),
                    ("logging", "getLogRecordFactory")))
# How functions begin that answer None where nothing is set.
ASKS = ("get", "is", "has", "current")
NUMBERS = (bool, int, str, bytes, type(None))
COLLECTIONS = (list, tuple, dict, set, frozenset, collections.OrderedDict, collections.defaultdict, collections.deque)
REGISTERS = (contextvars.ContextVar, threading.local)
STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
MODULE_TYPE = types.ModuleType
NO_CLASS = object()     # of what nobody knows what it is
OWN = {}          # (identity of an owner, name) -> the owner: what host code has set itself
LOGGERS = frozenset()  # names of those that were there before the candidate
IMPORTED = set()  # modules that the candidate's text imports in its own lines, whatever happens


def is_plain(thing, depth=2):
    kind = TYPE(thing)
    if kind in NUMBERS:
        return True
    if kind in (list, tuple) and depth:
        return all(is_plain(part, depth - 1) for part in thing)
    return kind in COLLECTIONS


def of_process(source, thing, name):
    kind = TYPE(thing)
    return drawn(source, None if thing is None or kind not in NUMBERS + COLLECTIONS else kind, ("asked", source, name))


def root_of(name):
    return name.partition(".")[0] if TYPE(name) is str else ""


def is_known(module, name):
    """A mode, or what other callers have set otherwise."""
    return name in MODES or name in OTHERWISE or f"{module}.{name}" in OTHERWISE


def is_constant(name):
    return name in CONSTANT or name.isupper() and not any(word in name for word in PLACE_WORDS)


def is_setting(module, name, found):
    """Whether what a module has under this name says something of the process."""
    if name in PLACES:
        return True
    root, is_private = root_of(module), name.startswith("_")
    if name.startswith("__") or is_known(module, name):
        return False
    # A table or a register, whatever it holds; numbers and texts that are no constants.
    is_process = module in PROCESS or root in PROCESS or module == "time" or module.startswith(SETTINGS)
    if TYPE(found) in COLLECTIONS and (is_private or is_process) or is_private and TYPE(found) in REGISTERS:
        return True
    if not is_plain(found):
        return False
    # A library's constants are written in capitals.
    return (is_process or root == "torch" and not module.startswith("torch.version")) and not is_constant(name) or (
        is_private)


def is_setting_of_class(cls, name):
    """A library's class keeps what it is set to under a name of its own."""
    home = TYPE.__getattribute__(cls, "__module__")
    return (TYPE(home) is str and root_of(home) in LIBRARIES and name.startswith("_") and not name.startswith("__")
            and is_plain(getattr(cls, name, cls)))


def module_of_class(thing):
    home = TYPE(thing).__module__
    return home if TYPE(home) is str else ""


def owner(value, name):
    """What host code asks for an attribute: the thing itself, or one that has the value of the
    process under this name."""
    kind = TYPE(value)
    if kind is tracer_drawn.Drawn or TYPE(name) is not str or (id(value), name) in OWN:
        return value
    # A module, an object that settings are attributes of, a stream, the code of a library.
    if issubclass(kind, MODULE_TYPE):
        table = vars(value)
        if table is tracer_drawn.MODULE:
            return value
        module = source = str(table.get("__name__"))
        if value is sys and name == "modules":
            return types.SimpleNamespace(modules=modules())
        if is_main(value):
            return types.SimpleNamespace(**{name: of_process(f"__main__.{name}", NO_CLASS, name)})
        if name == "__dict__":
            return all_of(value)
    elif kind is types.CodeType:
        is_others = name == "co_filename" and value.co_filename not in tracer_drawn.FILES
        return types.SimpleNamespace(co_filename=of_process("where a module lies", "", name)) if is_others else value
    elif issubclass(kind, TYPE):
        is_asked = is_setting_of_class(value, name)
        return types.SimpleNamespace(**{name: of_process(f"{value.__name__}.{name}", 0, name)}) if is_asked else value
    elif module_of_class(value).startswith(SETTINGS):
        if is_own_logger(value, name):
            return value
        module, source = module_of_class(value), kind.__name__
    elif is_stream(value):
        module, source = "sys", "a standard stream"
    else:
        return value
    try:
        found = getattr(value, name)
    except AttributeError:
        return value
    if not is_setting(module, name, found):
        return value
    return types.SimpleNamespace(**{name: of_process(f"{source}.{name}", found, name)})


def is_own_logger(logger, name):
    """One that has the candidate's own name is its own, and who listens to one that nobody had
    before is seen by set_otherwise."""
    own = getattr(logger, "name", None)
    return own == tracer_drawn.MODULE.get("__name__") or name == "handlers" and own not in LOGGERS and own != "root"


def is_stream(thing):
    return any(thing is getattr(sys, stream, None) for stream in STREAMS)


def all_of(module):
    """What vars() and dir() find in a module."""
    return types.SimpleNamespace(**{name: getattr(owner(module, name), name, None) for name in vars(module)
                                    if TYPE(name) is str and name != "__dict__"})


def named(thing, module, name):
    """What `from module import name` gives."""
    found = sys.modules.get(module)
    if found is None or TYPE(found) is types.SimpleNamespace:
        return thing
    return getattr(owner(found, name), name, thing)


def imports(line):
    """A line of the text's own that imports: these modules, and those that they lie in."""
    names = [line.module or ""] if hasattr(line, "module") else []
    names += [f"{names[0]}.{a.name}" if names else a.name for a in line.names]
    for name in names:
        while name:
            IMPORTED.add(name)
            name = name.rpartition(".")[0]


def own_builtins():
    """Python's own names are a module where a file is run and a table where it is imported."""
    return of_process("__builtins__", NO_CLASS, "__builtins__")


def starred(module):
    """What `from module import *` gives: settings among it are asked for like its attributes."""
    for name, thing in list(tracer_drawn.MODULE.items()):
        if getattr(sys.modules.get(module), name, NO_CLASS) is thing:
            tracer_drawn.MODULE[name] = named(thing, module, name)


def subject(thing):
    """What `match` looks at by attributes in a class's pattern."""
    is_asked = is_module((thing,)) or is_stream(thing) or module_of_class(thing).startswith(SETTINGS)
    return refused(DECIDES.format("what a pattern asks of a module")) if is_asked else thing


def put(value, name):
    """Host code sets an attribute."""
    kind = TYPE(value)
    if issubclass(kind, MODULE_TYPE) or TYPE(kind.__module__) is str and kind.__module__.startswith(SETTINGS):
        OWN[id(value), name] = value
    return value


def home_of(f, kind):
    """The module that a function is from."""
    module = getattr(f, "__module__", None)
    if TYPE(module) is not str and kind is types.BuiltinFunctionType:
        module = getattr(f.__self__, "__name__", "") if TYPE(f.__self__) is MODULE_TYPE else "torch"
    return module if TYPE(module) is str else ""


def answer(f, kind, its_owner, name, args, kwargs):
    """(None, what makes of a function's own answer what host code gets) where it says something of
    the process; else None. Host code itself calls it: what watches it looks at its callers."""
    is_bare = not args and not kwargs
    is_modules = (its_owner is None or issubclass(TYPE(its_owner), MODULE_TYPE)
                  or TYPE(its_owner).__name__.startswith(("PyCapsule", "pybind11")))
    if kind is types.FunctionType or kind is types.BuiltinFunctionType and is_modules:
        module = home_of(f, kind)
    elif kind is types.MethodType and is_bare and module_of_class(its_owner).startswith(SETTINGS):
        module = module_of_class(its_owner)
    elif kind is types.MethodType and is_bare and isinstance(its_owner, TYPE):
        module = home_of(f, kind)
    else:
        return None
    root, source = root_of(module), f"{module}.{name}()"
    if (module, name) in ASKERS:
        return None, lambda found: of_process(source, NO_CLASS, name)
    # Autocast is a mode of the device's; of others it belongs to the process.
    if root == "torch" and name in ("is_autocast_enabled", "get_autocast_dtype") and args and args[0] != "cuda":
        return of_process(source, NO_CLASS, name),
    is_process = module in PROCESS or root in PROCESS or module.startswith(SETTINGS)
    if module == "builtins" or not (is_process or root in LIBRARIES and is_bare):
        return None
    if is_known(module, name) or is_constant(name):
        return None

    def finish(found):
        is_asked = (name.startswith(ASKS) if found is None else
                    is_plain(found) or isinstance(found, enum.Enum) or hasattr(TYPE(found), "__members__"))
        return of_process(source, found, name) if is_asked else found
    return None, finish


def is_asker(thing):
    """A function that host code hands to another one, which calls it."""
    kind = TYPE(thing)
    if kind is not types.FunctionType and kind is not types.BuiltinFunctionType:
        return False
    module, name = home_of(thing, kind), thing.__name__
    is_library = root_of(module) in LIBRARIES and name.lstrip("_").startswith(ASKS)
    return ((is_library or module != "builtins" and root_of(module) in PROCESS) and not is_constant(name)
            and not is_known(module, name))


def is_module(things):
    """Whether one of them is a module that is not the candidate's."""
    return any(issubclass(TYPE(t), MODULE_TYPE) and vars(t) is not tracer_drawn.MODULE for t in things)


# What inspect says of where a thing is from.
FILE_OF = ("_patched_getfile", "getfile", "getsourcefile", "getabsfile", "getmodulename")
WRITERS = frozenset(map(id, (str, repr, ascii, format)))


def of_others(f, name, args):
    """(value,) of what says where a library lies, or what was registered with it, or None."""
    if not args:
        return None
    if f is TYPE and len(args) == 1 and is_stream(args[0]):
        return of_process("the class of a standard stream", NO_CLASS, name),
    if id(f) in WRITERS and TYPE(args[0]) is MODULE_TYPE:
        return of_process("the text of a module, which has its place", "", name),
    if f is hasattr and len(args) == 2 and (is_main(args[0]) or args[0] is builtins and not hasattr(*args)):
        return of_process(f"what {args[0].__name__} has", False, name),
    if getattr(f, "__module__", None) in ("inspect", "torch.package.package_importer") and name in FILE_OF and (
            not is_candidates(args[0])):
        return of_process(f"inspect.{name}()", "", name),
    return None


def is_main(module):
    """What a user has started: a script, a notebook, a server."""
    return TYPE(module) is MODULE_TYPE and module is sys.modules.get("__main__")


def is_candidates(thing):
    return getattr(thing, "__module__", None) == tracer_drawn.MODULE.get("__name__")


def same(left, right):
    """`is`: what is of the process may be None in another."""
    for value in (left, right):
        if TYPE(value) is tracer_drawn.Drawn and left is not right:
            key, other = facts_of(value).key, right if value is left else left
            if key is not None and key[0] == "asked" or TYPE(other) is bool:
                return tracer_drawn.derived((value,), bool)
    return left is right


# ---- the modules that are loaded ----

class Modules:
    """sys.modules, to host code: what it has imported is there, of all others nobody knows."""

    def is_sure(self, name):
        return name in sys.modules and (name in IMPORTED or name == tracer_drawn.MODULE.get("__name__"))

    def __contains__(self, name):
        return True if self.is_sure(name) else ask()

    def __getitem__(self, name):
        return sys.modules[name] if self.is_sure(name) else ask()

    def get(self, name, default=None):
        return sys.modules[name] if self.is_sure(name) else of_process("sys.modules", default, "modules")

    def __setitem__(self, name, module):
        sys.modules[name] = module
        IMPORTED.add(name)

    def __delitem__(self, name):
        del sys.modules[name]

    def pop(self, name, default=None):
        sys.modules.pop(name, default)
        return of_process("sys.modules", default, "modules")

    def setdefault(self, name, module):
        return sys.modules.setdefault(name, module) if self.is_sure(name) else ask()

    def __getattr__(self, name): return ask()
    def __len__(self): return ask()
    def __iter__(self): return ask()


def ask():
    return refused(DECIDES.format("sys.modules"))


def modules(made=[]):
    if not made:
        made.append(Modules())
    return made[0]
