"""tracer_candidate: the candidate as a module, its object, and what forward is called with.

It is executed as module `candidate` from memory; a linecache entry lets Triton's inspect.getsource
find its text.
"""
import builtins
import contextlib
import copy
import importlib.machinery
import importlib.util
import itertools
import linecache
import os
import sys
import types

import torch

import tracer_drawn
import tracer_plain
import tracer_process
import tracer_rewrite
import tracer_source
import tracer_tensor
import tracer_watch
from tracer_record import DTYPES, SOURCE_NAME
from tracer_stop import Stop
from tracer_tensor import TraceTensor
from ttir_compile import lines_of

CANDIDATE = "candidate"      # name of the module that the candidate becomes; the second trace draws one


# torch.library.Library objects of the candidate: its source is executed once for each size, and its
# operators are defined anew
LIBRARIES = []


def remember_libraries():
    """Once, in the zygote."""
    make = torch.library.Library.__init__

    def init(self, *args, **kwargs):
        make(self, *args, **kwargs)
        LIBRARIES.append(self)
    torch.library.Library.__init__ = init


def load_candidate(source, code=None):
    while LIBRARIES:
        LIBRARIES.pop()._destroy()
    module = types.ModuleType(CANDIDATE)
    module.__file__ = SOURCE_NAME
    sys.modules[CANDIDATE] = module
    tracer_source.TEXT = source
    lines = lines_of(source)
    linecache.cache[SOURCE_NAME] = (len(source), None, lines, SOURCE_NAME)
    if tracer_plain.SHELL:
        rename(module)
        tracer_watch.GLOBALS = tracer_drawn.MODULE = module.__dict__
        code = tracer_rewrite.rewritten(source)
    exec(code or compile(source, SOURCE_NAME, "exec", dont_inherit=True), module.__dict__)
    return module


def rename(module):
    """Whoever imports a module gives it its name, and a file that it is from."""
    global CANDIDATE
    name = f"{tracer_process.word()}_{tracer_process.word()}"
    sys.modules[name] = sys.modules.pop(module.__name__)
    module.__name__ = tracer_source.OWN_NAME = CANDIDATE = name
    module.__file__ = f"{os.environ['HOME']}/{tracer_process.word()}/{name}.py"
    module.__loader__ = importlib.machinery.SourceFileLoader(name, module.__file__)
    module.__spec__ = importlib.util.spec_from_file_location(name, module.__file__, loader=module.__loader__)
    module.__cached__, module.__package__ = module.__spec__.cached, ""
    module.__builtins__ = vars(builtins)
    linecache.cache[module.__file__] = linecache.cache[SOURCE_NAME]


def build(job, module, seed=None):
    name = job.get("class", "ModelNew")
    cls = getattr(module, name, None)
    if not isinstance(cls, type):
        raise Stop("no-class", "NameError", f"the source defines no class {name}")
    args = [plain_value(v) for v in job.get("init_args", [])]
    kwargs = {k: plain_value(v) for k, v in job.get("init_kwargs", {}).items()}
    torch.manual_seed(job.get("init_seed", 0) if seed is None else seed)
    with without_values() if job.get("shapes_only") else contextlib.nullcontext():
        model = cls(*args, **kwargs)
        if isinstance(model, torch.nn.Module):
            model = moved(model)
    if not callable(getattr(model, "forward", None)):
        raise Stop("no-class", "AttributeError", f"{name} has no method forward")
    if isinstance(model, torch.nn.Module):
        model.train() if job.get("training", False) else model.eval()
    return model


def moved(model):
    """Whoever makes a module moves it to the device, and these methods may be the candidate's
    own."""
    if has_own(model, "to", "cuda", "_apply"):
        # In the second trace in other words.
        model = model.to(torch.device("cuda", 0)).cuda(0) if tracer_plain.SHELL else model.to(device="cuda").cuda()
    # What a module is must not hang on whether its weights came from a file: in
    # the second trace they do.
    parts = list(model.modules()) if tracer_plain.SHELL else ()
    if any(m._load_state_dict_pre_hooks or m._load_state_dict_post_hooks or m._state_dict_hooks
           or m._state_dict_pre_hooks or has_own(m, "load_state_dict", "_load_from_state_dict", "state_dict",
                                                 "__setstate__", "get_extra_state", "set_extra_state") for m in parts):
        model.load_state_dict(model.state_dict())
    # Nor may it hang on whether somebody copied it, froze it, or looked at it in eval mode.
    if any(has_own(m, "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
           for m in parts):
        with contextlib.suppress(Exception):
            model = copy.deepcopy(model)
    if any(has_own(m, "eval", "train", "requires_grad_", "apply", "zero_grad") for m in parts):
        wanted = [p.requires_grad for p in model.parameters()]
        model.requires_grad_(False).apply(lambda m: None).eval().train().zero_grad()
        for p, asks in zip(model.parameters(), wanted):
            p.requires_grad_(asks)
    # Nor on whether processes share it, it was compiled, or given the type that it has already.
    is_fp32 = all(t.dtype == torch.float32 for t in model.parameters() if t.is_floating_point())
    for m, name in itertools.product(parts, ("share_memory", "compile", *(("float",) if is_fp32 else ()))):
        if has_own(m, name):
            with contextlib.suppress(Exception):
                getattr(m, name)()
    return model


def has_own(module, *names):
    """Whether the candidate has written one of these methods."""
    return any(getattr(getattr(type(module), name, None), "__module__", None) == CANDIDATE for name in names)


@contextlib.contextmanager
def without_values():
    """At sizes where nothing is computed parameters get no values: drawing gigabytes would take
    longer than all else."""
    own = {name: getattr(torch.nn.init, name) for name in dir(torch.nn.init)
           if name.endswith("_") and not name.startswith("_")}
    try:
        for name in own:
            setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)
        yield
    finally:
        for name, function in own.items():
            setattr(torch.nn.init, name, function)


def plain_value(value):
    """init_args: everything but tensors."""
    if isinstance(value, list):
        return [plain_value(v) for v in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(plain_value(v) for v in value["tuple"])
        if "dict" in value:
            return {k: plain_value(v) for k, v in value["dict"].items()}
        if "dtype" in value:
            return DTYPES[value["dtype"]]
        if "float" in value:
            return float(value["float"])
        raise Stop("unsupported", "TypeError", f"constructor arguments of the form {sorted(value)} are not supported")
    return value


# ---- parameters and inputs ----

def place(job, model, tracer):
    """Moves the module to the device: each parameter and buffer becomes a tensor without contents,
    or a constant where the task has none like it."""
    if not isinstance(model, torch.nn.Module):
        return
    state = job.get("state", {})
    memo = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for table in (module._parameters, module._buffers):
            for key, value in table.items():
                if value is None:
                    continue
                name = f"{prefix}.{key}" if prefix else key
                if id(value) not in memo:
                    memo[id(value)] = (value, placed(value, name, state.get(name), tracer))
                table[key] = memo[id(value)][1]
    for module in model.modules():
        for key, value in list(module.__dict__.items()):
            if key not in ("_parameters", "_buffers", "_modules"):
                module.__dict__[key] = replaced(value, memo, 4)


def replaced(value, memo, depth):
    """References to moved parameters inside a module's own attributes, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return memo[id(value)][1] if id(value) in memo else value
    if depth and type(value) in (list, tuple):
        return type(value)(replaced(v, memo, depth - 1) for v in value)
    if depth and type(value) is dict:
        return {k: replaced(v, memo, depth - 1) for k, v in value.items()}
    return value


def placed(value, name, entry, tracer):
    value_of = tracer_plain.SHELL.trace_of(value) if tracer_plain.SHELL else None
    wanted = entry is not None and list(value.shape) == entry["shape"] and value.dtype == DTYPES.get(entry["dtype"])
    if wanted:
        t = meta_tensor(tracer, value.shape, None, value.dtype, "param")
    else:
        t = (value.detach() if isinstance(value, TraceTensor) else tracer.wrap(value.detach()) if value_of is None
             else value_of)
        if t._buffer.known:
            t._buffer.kind = "const"
            # a parameter is data, also one that the task does not have: what is computed from it
            # belongs on the tape
            tracer.rec.freeze(t._buffer)
    t._buffer.name = name
    t = shown(t)
    if isinstance(value, torch.nn.Parameter):
        t = torch.nn.Parameter(t, requires_grad=value.requires_grad)
    return t


def shown(t):
    """The tensor that the candidate is to see."""
    return tracer_plain.SHELL.outer(t) if tracer_plain.SHELL else t


def meta_tensor(tracer, shape, stride, dtype, kind):
    inner = (torch.empty_strided(shape, stride, dtype=dtype, device="meta") if stride is not None
             else torch.empty(shape, dtype=dtype, device="meta"))
    return tracer.wrap(inner, kind)


def make_inputs(job, tracer, is_strided=False):
    """Forward's arguments by position and by keyword, new tensors, and the buffers of the tensors
    among them in flattened order. The tensors that the reference draws at random come last: what
    the candidate draws are these. `is_strided`: with other strides than the task's."""
    buffers = []

    def make(value, show=shown):
        if isinstance(value, list):
            return [make(v) for v in value]
        if isinstance(value, dict):
            if "tensor" in value:
                spec = value["tensor"]
                stride = [2 * n for n in spec["stride"]] if is_strided and spec.get("stride") else spec.get("stride")
                t = meta_tensor(tracer, spec["shape"], stride, DTYPES[spec["dtype"]], "input")
                t._buffer.input = len(buffers)
                buffers.append(t._buffer)
                t = show(t)
                if tracer_plain.SHELL and tracer_plain.SHELL.made_by and t.is_floating_point() and show is shown:
                    return tracer_plain.SHELL.made_by(t)
                return t.requires_grad_() if spec.get("requires_grad") else t
            if "tuple" in value:
                return tuple(make(v) for v in value["tuple"])
            if "dict" in value:
                return {k: make(v) for k, v in value["dict"].items()}
        return plain_value(value)

    with tracer_tensor.without_modes():
        args = [make(v) for v in job["inputs"]]
        kwargs = {k: make(v) for k, v in job.get("input_kwargs", {}).items()}
        # the tracer's own: nobody sees them before they are drawn
        draws = [make({"tensor": spec}, show=lambda t: t) for spec in job.get("draws", [])]
    return args, kwargs, draws, buffers
