"""A task at the sizes at which its candidates' costs are predicted: larger than those at which
values are judged, and never computed. The reference is walked on PyTorch's meta device, whose
tensors have shapes alone; out come what a tracer needs to trace a candidate there, and what the
reference's operators move and compute."""
import torch
from torch.utils import _pytree as pytree

import oracle_cost
import oracle_size
from oracle_faults import theirs
from oracle_pack import describe, dtype_name
from oracle_reference import flatten_outputs, named_tensors

DOUBLINGS_MAX = 40


class NotThere(Exception):
    """Costs cannot be predicted at these sizes; the text says why."""


def largest(source, init_seed):
    elements = 0
    for shape in oracle_size.input_shapes(source, init_seed):
        n = 1
        for size in shape:
            n *= size
        elements = max(elements, n)
    return elements


def ways_to_grow(sites):
    """Groups of sites that grow together: the batch, which leaves kernels' blocks as they are; else
    one size alone, outer dimensions first; at last all sizes of a kind."""
    yield [s for s in sites if s.role == "batch"]
    for site in sorted((s for s in sites if s.role), key=lambda s: s.dimension):
        yield [site]
    for role in ("other", "image"):
        yield [s for s in sites if s.role == role]


def grown(source, init_seed, elements):
    """(source, {name: (stock, now)}): some size doubled until the largest input has so many
    elements."""
    if largest(source, init_seed) >= elements:
        return source, {}
    sites = oracle_size.sites_of(source)
    oracle_size.roles_set(source, init_seed, sites)
    for group in ways_to_grow(sites):
        values = [s.value for s in sites]
        have = 0
        for _ in range(DOUBLINGS_MAX if group else 0):
            values = [2 * v if s in group else v for s, v in zip(sites, values)]
            text = oracle_size.rewritten(source, sites, values)
            try:
                now = largest(text, init_seed)
                if now >= elements:
                    oracle_size.measure(text, init_seed)     # forward takes it
                    return text, oracle_size.changes(sites, values)
            except theirs():
                break
            if now <= have:
                break
            have = now
    raise NotThere(f"no size of the task was found that makes an input of {elements} elements")


def describe_there(model, reference, call, training):
    names = lambda d: {n: describe(v) for n, v in d.items()}
    state = {n: {"dtype": dtype_name(t), "shape": list(t.shape), "sha256": ""} for n, t in named_tensors(model)}
    init = reference.init
    return {"init_args": [describe(v) for v in init.args], "init_kwargs": names(init.kwargs), "state": state,
            "training": training, "inputs": [describe(v) for v in call.args], "input_kwargs": names(call.kwargs),
            "draws": [], "shapes_only": True}


def reference_cost(source, model, call):
    """(outputs, {"eager", "fused"}) of one forward without contents."""
    with oracle_size.on_meta(source), torch.no_grad(), oracle_cost.OpLog() as log:
        out = model(*call.args, **call.kwargs)
    tensors = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    eager, fused = oracle_cost.launches(log, tensors)
    return flatten_outputs(out), {"eager": eager, "fused": fused}


def reference_shapes(source, model, call):
    """The same without the times, which take a walk over thousands of steps where a reference has a
    recurrence: the products alone, as one launch."""
    walk = oracle_size.Walk()
    with oracle_size.on_meta(source), torch.no_grad(), walk, oracle_size.RecurrentShapes(walk):
        out = model(*call.args, **call.kwargs)
    return flatten_outputs(out), {"eager": [{"dot_flops": walk.products}], "fused": []}


def priced(wanted, source, judged, init_seed, stock):
    """The oracle's message about the sizes of the cost; wanted: "": about the task's own, without
    times. source: the task's own text; judged: the text that is judged; stock: its variant."""
    try:
        text, changed = (source, {}) if wanted in ("", "stock") else grown(source, init_seed, int(wanted))
        if text == judged:
            return {"same": True}
        if stock.draws:
            raise NotThere("the reference draws random numbers, whose shapes there are not known")
        reference, call = oracle_size.without_contents(text, init_seed)
        model = reference.model
        for module, (_, training) in zip(model.modules(), stock.modes):
            module.training = training
        outputs, cost = (reference_cost if wanted else reference_shapes)(text, model, call)
        return {"job": describe_there(model, reference, call, stock.training),
                "changed": {n: list(v) for n, v in changed.items()},
                "outputs": [[dtype_name(t), list(t.shape)] for t in outputs], **cost}
    except NotThere as e:
        return {"why": str(e)}
    except theirs() as e:
        return {"why": f"the reference has no shapes there: {type(e).__name__}: {str(e)[:150]}"}
