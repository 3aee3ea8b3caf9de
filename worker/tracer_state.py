"""tracer_state: what a candidate's host code remembers from call to call, as far as Python shows
it.

A counter with a threshold beyond the calls that a trace makes, a draw of random numbers, a queue
that fills: all of them change something that is reachable from the model, the candidate's module or
a well-known place. Constants, caches by shape and compiled kernels settle; what goes on changing is
state. tracer_walk.py looks through it, tracer_tables.py knows what was there before.
"""
import _random
import contextvars
import ctypes
import gc
import os
import random
import sys
import types

import torch

import tracer_settings
import tracer_tables
from tracer_tables import FREEZES, Mark, Tables, is_own
from tracer_walk import Walk, digest

ENVIRONMENT = type(os.environ)


def snapshot(model, module, inputs=(), is_first=True):
    """Of the judged sizes everything, of others what the candidate's own names lead to. Everything
    that could count: {path: value}; a path is a text, or a pair for the names in one thing."""
    young = gc.get_objects()      # the zygote's own are frozen, and not among them
    own = {kind for kind in set(map(type, young)) if is_own(kind)}
    asked = {*own, types.FunctionType, Mark}
    found = [thing for thing in young if type(thing) in asked]
    walk = Walk({id(thing) for thing in found if type(thing) is types.FunctionType})
    walk.out["what is frozen"] = FREEZES.look([thing for thing in found if type(thing) is Mark])
    if isinstance(model, torch.nn.Module):
        walk.on_tape = {id(t) for t in (*model.parameters(), *model.buffers()) if t.is_cuda}
    walk.visit("model", model, 0)
    walk.visit("inputs", inputs, 0)
    names = vars(module)
    walk.names(module.__name__, names, 0)
    # What no name of the module leads to: functions and objects that host code gave away.
    for kind in own:
        if hasattr(kind, "__del__"):
            walk.unseen = f"objects of {kind.__name__}, which do something at their end"
    for thing in found:
        kind = type(thing)
        if (kind is not Mark and (kind is not types.FunctionType or thing.__globals__ is names)
                and id(thing) not in walk.seen):
            walk.visit(f"something of {kind.__name__}", thing, 0)
    for variable, value in contextvars.copy_context().items():
        walk.visit(f"the context variable {variable.name}", value, 0)
    if is_first:
        surroundings(walk)
    if walk.unseen:
        raise Unseen(walk.unseen)
    return walk.out


def surroundings(walk):
    """What stands in the libraries, and what the process is set to."""
    if tracer_tables.TABLES:
        for name, value in tracer_tables.TABLES.changed():
            walk.visit(name, value, 0)
            if not walk.unseen and tracer_tables.TABLES.is_replaced(name, value):
                raise Replaced(name)
        for function in tracer_tables.TABLES.functions_with_more():
            walk.visit(f"{function.__module__}.{function.__qualname__}", function.__dict__, 0)
        walk.out[Tables.PATH] = tracer_tables.TABLES.lengths()
    walk.out.update(tracer_settings.settings())
    walk.out["os.environ"] = (dict(os.environ._data) if type(os.environ) is ENVIRONMENT
                              else digest(repr(sorted(os.environ.items()))))
    walk.out["the state of the module random"] = state_of_random()
    walk.out["the state of torch's random numbers"] = digest(torch._C.default_generator.get_state().numpy().tobytes())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, key, *rest = numpy.random.get_state()
        walk.out["the state of numpy's random numbers"] = (kind, key.tobytes(), *rest)


RANDOM = random.getstate.__self__


def state_of_random():
    """What random.getstate() says, as it lies in memory: there it would be an object a word."""
    first = object.__basicsize__
    return ctypes.string_at(id(RANDOM) + first, _random.Random.__basicsize__ - first), RANDOM.gauss_next


class Replaced(Exception):
    """A function of torch's that host code has put another in the place of."""


class Unseen(Exception):
    """Something that host code remembers, and that cannot be looked through."""


def difference(before, after):
    """The first thing that changed, in words, or None."""
    for path, value in after.items():
        if before.get(path, value) != value:
            if path == Tables.PATH:
                return tracer_tables.TABLES.name(before[path], value)
            return words(path, before.get(path), value)
    missing = [path for path in after if path not in before] or [path for path in before if path not in after]
    return missing[0] if missing else None


def words(path, before, after):
    """A path as people say it; of several names the first in question."""
    if isinstance(path, str):
        return path
    found = [key for key in {**after, **before} if key not in before or key not in after or before[key] != after[key]]
    return f"{path[0]}.{found[0]}"
