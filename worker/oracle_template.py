"""A task's arguments as functions of its sizes: what a tracer needs to call a candidate at sizes
that nobody has made inputs for.

The task's argument makers run on the meta device with one size doubled at a time; each number in
their description is then a product of sizes, or a sum of such with a constant. It has to give what
they give with all sizes changed, or the task has no template."""
import math

import oracle_size
from oracle_faults import theirs
from oracle_pack import describe, dtype_name
from oracle_reference import named_tensors

NAMES_MAX = 8
STATE_MAX = 256         # parameters and buffers: a larger network takes long to build


class NoTemplate(Exception):
    """Some number follows no size in a way that is looked for."""


def described(source, sites, values, init_seed):
    """Keys of the tracer's job at these sizes."""
    reference, call = oracle_size.without_contents(oracle_size.rewritten(source, sites, values), init_seed)
    names = lambda d: {n: describe(v) for n, v in d.items()}
    state = {n: {"dtype": dtype_name(t), "shape": list(t.shape), "sha256": ""}
             for n, t in named_tensors(reference.model)}
    if len(state) > STATE_MAX:
        raise NoTemplate
    return {"init_args": [describe(v) for v in reference.init.args], "init_kwargs": names(reference.init.kwargs),
            "state": state, "inputs": [describe(v) for v in call.args], "input_kwargs": names(call.kwargs)}


def template(source, sites, init_seed):
    """{"job": the description with {"of": [[factor, divisor, [exponent of each size]]...]}
    for numbers that follow sizes, "free": [index of each size that some number follows]};
    None where there is none."""
    values = [s.value for s in sites]
    if not sites or len(sites) > NAMES_MAX:
        return None
    try:
        base = described(source, sites, values, init_seed)
        doubled = [attempt(source, sites, [2 * v if k == i else v for k, v in enumerate(values)], init_seed, base)
                   for i in range(len(values))]
        free = [i for i, d in enumerate(doubled) if d != base]
        check = [3 * v if i in free else v for i, v in enumerate(values)]
        other = described(source, sites, check, init_seed)
        return {"job": joined(base, doubled, other, values, check), "free": free} if free else None
    except theirs():
        return None


def attempt(source, sites, values, init_seed, otherwise):
    """What the constructor refuses alone (a number of heads) is no size that is free."""
    try:
        return described(source, sites, values, init_seed)
    except NoTemplate:
        raise
    except theirs():
        return otherwise


def joined(base, doubled, other, values, check):
    if isinstance(base, dict) and base.keys() == other.keys():
        return {k: joined(v, [d[k] for d in doubled], other[k], values, check) for k, v in base.items()}
    if isinstance(base, list) and len(base) == len(other):
        return [joined(v, [d[k] for d in doubled], other[k], values, check) for k, v in enumerate(base)]
    if base == other and all(d == base for d in doubled):
        return base
    if any(type(n) is not int for n in (base, other, *doubled)):
        raise NoTemplate
    for form in (product(base, doubled, values), total(base, doubled, values)):
        if form and sum(a * math.prod(v ** e for v, e in zip(check, p)) // b for a, b, p in form) == other:
            return {"of": form}
    raise NoTemplate


def product(base, doubled, values):
    """c times a product of sizes, each to the power by which doubling it multiplies the number."""
    powers = [{1: 0, 2: 1, 4: 2}.get(d / base if base else 0) for d in doubled]
    if None in powers:
        return None
    whole = math.prod(v ** e for v, e in zip(values, powers))
    divisor = math.gcd(base, whole)
    return [[base // divisor, whole // divisor, powers]]


def total(base, doubled, values):
    """A constant and a multiple of each size."""
    only = lambda i: [int(k == i) for k in range(len(values))]
    parts = [[d - base, v, only(i)] for i, (d, v) in enumerate(zip(doubled, values)) if d != base]
    rest = base - sum(a for a, _, _ in parts)
    return parts + [[rest, 1, [0] * len(values)]]
