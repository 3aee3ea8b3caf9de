"""One task's reference: its module executed, its model built, its inputs made, its forward called
in its own precision and in fp64.

A task may be written in several ways (docs/tasks.md): arguments as a list, a tuple, a dict of
keywords, a pair of both or a single tensor; on the CPU or on cuda; with a forward that draws random
numbers, which is then called under one seed, as KernelBench does."""
import collections.abc
import contextlib
import copy
import hashlib
import inspect
import linecache
import os
import random
import sys
import types

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import draw_law
import oracle_device
from oracle_faults import theirs
from oracle_pack import Fault, dtype_name, image

TASK_FILE = "task.py"
DRAW_SEED = 42      # forward is called under this seed, as KernelBench calls it
DRAWS_MAX = 64
OTHER_SEEDS, SEED_STEP = 8, 0x9E3779B97F4A7C15     # where inputs of a seed have other sizes


def task_text(source):
    """The module's file name is known to linecache, so that inspect finds classes' texts and
    tracebacks have lines."""
    linecache.cache[TASK_FILE] = (len(source), None, source.splitlines(True), TASK_FILE)


class Call:
    """Arguments by position and by keyword. `tensors` are those that it holds, in the order in
    which the tracer numbers them."""

    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs

    def tensors(self):
        return [t for t in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(t, torch.Tensor)]

    def numbers(self):
        """Whole numbers beside the tensors."""
        return [v for v in pytree.tree_leaves((self.args, self.kwargs)) if type(v) is int]

    def map(self, one):
        """Another call with every tensor replaced by one(tensor)."""
        args, kwargs = pytree.tree_map(lambda t: one(t) if isinstance(t, torch.Tensor) else t, (self.args, self.kwargs))
        return Call(args, kwargs)


def call_of(value, function, maker):
    """What get_inputs or get_init_inputs returned as the call that it stands for. [[...], {...}]
    are arguments by position and by keyword where the function takes them so. A generator yields
    them one after another."""
    if isinstance(value, collections.abc.Iterator):
        value = list(value)
    if isinstance(value, dict):
        return Call([], dict(value))
    if not isinstance(value, (list, tuple)):
        if value is None or callable(value):
            raise Fault("task-broken",
                        f"{maker}() returned {type(value).__name__}, expected a list, a tuple, a dict or a tensor")
        return Call([value], {})
    if (len(value) == 2 and isinstance(value[0], (list, tuple)) and isinstance(value[1], dict)
            and takes(function, *value)):
        return Call(list(value[0]), dict(value[1]))
    return Call(list(value), {})


def form_of_call(call):
    """Shapes, dtypes and all that is no tensor."""
    leaves, tree = pytree.tree_flatten((call.args, call.kwargs))
    return tree, [(t.shape, t.dtype) if isinstance(t, torch.Tensor) else (type(t), repr(t)) for t in leaves]


def refilled(call, other):
    """A call whose floats are another's, as often as they go in: whole rows where rows are as
    long."""
    tensors, others = call.tensors(), other.tensors()
    if len(tensors) != len(others):
        return call

    def from_other(t, o):
        if not t.is_floating_point() or t.dtype != o.dtype or t.dim() == 0 or o.dim() != t.dim() or o.numel() == 0:
            return t
        width = t.shape[-1] if t.shape[-1] == o.shape[-1] else 1
        rows = o.reshape(-1, width)
        return rows[torch.arange(t.numel() // max(width, 1)) % rows.shape[0]].reshape(t.shape)

    following = iter(map(from_other, tensors, others))
    return call.map(lambda t: next(following))


def takes(function, args, kwargs):
    try:
        inspect.signature(function).bind(None, *args, **kwargs)    # None stands for self
    except (TypeError, ValueError):
        return False
    return True


class Reference:
    """One executed task source: its module, model and argument makers."""

    def __init__(self, source, init_seed, announce=lambda phase: None):
        announce("import")
        self.source = source
        self.module = types.ModuleType("task")
        self.module.__file__ = TASK_FILE
        sys.modules["task"] = self.module
        task_text(source)
        exec(compile(source, TASK_FILE, "exec"), self.module.__dict__)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not hasattr(self.module, name):
                raise Fault("task-broken", f"the task does not define {name}")
        announce("init")
        seed_all(init_seed)
        self.init = call_of(self.module.get_init_inputs(), self.module.Model.__init__, "get_init_inputs")
        self.init_seed = init_seed
        seed_all(init_seed)
        self.model = self.module.Model(*copy.deepcopy(self.init.args), **copy.deepcopy(self.init.kwargs))
        self.first, self.draws_sizes = None, False

    def inputs(self, seed):
        """Forward's arguments under a seed, as a Call. All seeds give what has the form of the
        first, since one tape has one set of shapes. A task may draw sizes too (the lengths of
        sequences that lie one behind another, the edges of a graph): then other seeds are tried,
        and at last floats alone are this seed's, in the shapes of the first call."""
        call = self.drawn(seed)
        if self.first is None:
            self.first = seed, form_of_call(call)
        for turn in range(1, OTHER_SEEDS + 1):
            if form_of_call(call) == self.first[1]:
                return call
            self.draws_sizes = True
            other = self.drawn((seed + turn * SEED_STEP) % (1 << 63))
            call = other if form_of_call(other) == self.first[1] else call
        return call if form_of_call(call) == self.first[1] else refilled(self.drawn(self.first[0]), call)

    def drawn(self, seed):
        """What is no leaf of autograd's graph is cut from it: inputs are data."""
        seed_all(seed)
        call = call_of(self.module.get_inputs(), self.module.Model.forward, "get_inputs")
        return call.map(lambda t: t if t.is_leaf else t.detach())

    def state(self):
        out = {}
        for name, t in named_tensors(self.model):
            out[name] = {"dtype": dtype_name(t), "shape": list(t.shape),
                         "sha256": hashlib.sha256(image(t.detach().contiguous())).hexdigest()}
        return out


def named_tensors(model):
    return list(model.named_parameters(remove_duplicate=False)) + list(model.named_buffers(remove_duplicate=False))


def seed_all(seed):
    """All generators that a reference may draw from. torch.manual_seed seeds those of GPUs too, and
    where none is visible writes down the whole stack for the day that one comes: that took a third
    of an oracle's time."""
    (torch.manual_seed if os.environ.get("CUDA_VISIBLE_DEVICES") else torch.default_generator.manual_seed)(seed)
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed & 0xFFFFFFFF)
    except ImportError:
        pass


class Asked:
    """While a task makes its inputs: the whole numbers that it asks torch.randint for."""

    def __enter__(self):
        self.real, self.drawn = torch.randint, []
        torch.randint = self.randint
        return self

    def __exit__(self, *exc):
        torch.randint = self.real

    def randint(self, *args, **kwargs):
        out = self.real(*args, **kwargs)
        bounds = [a for a in args if type(a) is int]
        low = kwargs.get("low", bounds[0] if bounds and (len(bounds) == 2 or "high" in kwargs) else 0)
        high = kwargs.get("high", bounds[-1] if bounds else 1)
        self.drawn.append((out, (low, high - 1)))
        return out

    def range_of(self, t):
        """(lowest, highest) that a tensor was asked with, if it is what came of that; else None."""
        place = t.untyped_storage().data_ptr()
        for out, (low, high) in self.drawn:
            is_it = t.dtype == out.dtype and t.numel() and place == out.untyped_storage().data_ptr()
            if is_it and low <= t.min() and t.max() <= high:
                return low, high
        return None


# ---- calls of forward ----

class Draws(TorchDispatchMode):
    """The tensors that forward draws at random. Without `given` they are kept in order; with it
    they are handed out again, in the dtype asked for, so that the same call in fp64 sees the same
    numbers."""

    FACTORIES = {"randn", "rand", "randint", "randn_like", "rand_like", "randint_like", "normal", "bernoulli",
                 "multinomial", "randperm"}
    IN_PLACE = {"normal_", "uniform_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_", "bernoulli_"}

    # Operators that say where something was found, among equals too, and those that round floats to
    # nothing or by one operation: whole numbers that are made with others may honestly differ.
    PLACES = {"argmax", "argmin", "sort", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian", "nonzero",
              "cummax", "cummin", "unique", "multinomial"}
    PLAIN = {"mul", "add", "sub", "rsub", "neg", "abs", "sign", "clamp", "clamp_min", "clamp_max", "relu",
             "threshold", "round", "floor", "ceil", "trunc", "where", "lt", "le", "gt", "ge", "eq", "ne",
             "bucketize", "searchsorted", "maximum", "minimum", "amax", "amin", "_to_copy", "copy",
             "clone", "cat", "stack", "index", "gather", "isnan", "isinf", "isfinite", "signbit",
             "logical_and", "logical_or", "logical_not"}

    def __init__(self, given=None, misplaces=False):
        super().__init__()
        self.given, self.taken, self.kinds = given, [], set()
        self.how = []          # of each: the factory's name where that and the shape say it all
        self.laws, self.seeds, self.places = [], [], []      # of each, as draw_law.py has them; the device's type
        self.is_open = False   # whole numbers among the results may be anybody's choice
        self.has_places = False     # values came with their places, and perhaps nobody uses those
        self.casts = False          # floats to whole numbers
        self.misplaces = misplaces  # places beside values are those of the next element

    def note(self, func, args, out):
        name = func._schema.name.split("::")[-1].rstrip("_")
        is_place = (name in self.PLACES or name in ("max", "min") and isinstance(out, tuple) or "indices" in name)
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        is_beside = is_place and isinstance(out, tuple) and len(out) == 2 and out[1].dtype == torch.int64
        self.has_places |= is_beside
        self.casts |= bool(cast_of(func, args, out))
        self.is_open |= is_place and not is_beside or not (is_view or is_place) and name not in self.PLAIN and any(
            isinstance(a, torch.Tensor) and a.is_floating_point() for a in args)
        if is_beside and self.misplaces and out[1].numel():
            sizes = [a for a in args[1:] if isinstance(a, int)] or [-1]
            dim = sizes[-1] if name in ("topk", "kthvalue") and len(sizes) > 1 else -1 if name in (
                "topk", "kthvalue") else sizes[0]
            size = args[0].shape[dim] if args[0].dim() and dim < args[0].dim() else max(args[0].numel(), 1)
            return out[0], (out[1] + 1) % size
        return out

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return self.note(func, args, func(*args, **kwargs))
        name = func._schema.name.split("::")[-1]
        seed = draw_law.seed_of(kwargs.get("generator") or torch.default_generator)
        out = func(*args, **kwargs)
        if (not isinstance(out, torch.Tensor) or name not in self.FACTORIES | self.IN_PLACE
                or len(self.taken) == DRAWS_MAX):
            self.kinds.add("other")
            return out
        if self.given is not None:
            drawn = self.given[len(self.taken)].to(out.dtype)
            out = out.copy_(drawn) if name in self.IN_PLACE else drawn.clone()
        self.kinds.add("mask" if "bernoulli" in name else "draw")
        self.taken.append(out.detach().clone())
        self.laws.append(draw_law.distribution(func, args, kwargs))
        self.seeds.append(seed)
        self.places.append(out.device.type)
        self.how.append(name.removesuffix("_like") if name.removesuffix("_like") in ("randn", "rand") else "other")
        return out


def cast_of(func, args, out):
    """What an operator casts from floats to whole numbers, and to which; or None."""
    name = func._schema.name
    source = args[1] if name == "aten::copy_" else args[0] if name == "aten::_to_copy" else None
    is_cast = (isinstance(source, torch.Tensor) and source.is_floating_point() and not out.is_floating_point()
               and not out.is_complex() and out.dtype != torch.bool)
    return (source, out.dtype) if is_cast else None


class Fits(TorchDispatchMode):
    """Whether every float that forward casts to a whole number has one of the type: what becomes of
    others torch leaves open, and processors do differ. is_short: and one of 32 bits."""

    def __init__(self):
        super().__init__()
        self.fits = self.is_short = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        cast = cast_of(func, args, out)
        if cast and cast[0].numel():
            info, v = torch.iinfo(cast[1]), cast[0].double().trunc()
            self.fits &= bool(((v >= info.min) & (v <= info.max)).all())
            self.is_short &= bool((v.abs() < 2 ** 31).all())
        return out


def forward(model, call, draws=None):
    """The tensors that forward returns, in order. Draws are watched where the caller asks for
    it."""
    with torch.no_grad(), draws or contextlib.nullcontext():
        return flatten_outputs(model(*call.args, **call.kwargs))


def flatten_outputs(out):
    """Numbers, strings and None among the outputs are no results of kernels and are left out."""
    leaves = pytree.tree_leaves(out)
    tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
    odd = sorted({type(t).__name__ for t in leaves if not isinstance(t, (torch.Tensor, int, float, str, type(None)))})
    if odd or not tensors:
        raise Fault("task-unsupported",
                    f"forward returned {', '.join(odd) or 'no tensor'}; only tensors can be compared (lists, tuples "
                    f"and dicts "
                    "of them, with numbers, strings and None among them)")
    return tensors


def plain_outputs(model, call):
    """The numbers and strings among forward's outputs."""
    with torch.no_grad():
        return [repr(v) for v in pytree.tree_leaves(model(*call.args, **call.kwargs))
                if isinstance(v, (int, float, str))]


def clone_tensor(t, double=False):
    if any(stride == 0 and size > 1 for stride, size in zip(t.stride(), t.shape)):
        c = t.detach().clone()
    else:
        c = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t.detach())
    return c.double() if double and t.is_floating_point() else c


def forward_double(model, call, draws, changed=()):
    """(outputs, {name: buffer after forward}) of the reference in fp64, the buffers those that are
    named; None where it cannot run so. Tensors that forward makes itself become fp64 through the
    default dtype; a model that insists on another dtype is tried without."""
    for default in (torch.float64, torch.float32):
        torch.set_default_dtype(default)
        try:
            twin = copy.deepcopy(model).double()
            outputs = forward(twin, call.map(lambda t: clone_tensor(t, double=True)), Draws(draws) if draws else None)
            return outputs, {name: t.detach() for name, t in named_tensors(twin) if name in changed}
        except theirs():
            continue
        finally:
            torch.set_default_dtype(torch.float32)
    return None


def device_mode(source, device):
    """The context in which a task's code runs."""
    if "cuda" not in source:
        return contextlib.nullcontext()
    oracle_device.install()
    return oracle_device.OneDevice(device)
