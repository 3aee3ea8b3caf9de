"""A reference as a program over exact values, for `hone prove`: the graph of its operators with the
sizes at hand, in a few kinds of steps.

The operators come from torch's own export (make_fx, decomposed); oracle_proof_operators.py says
each in the steps of oracle_proof_steps.py, which src/prove evaluates (docs/prove.md lists them).
Nothing here computes with a float of the task."""
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import oracle_state
from oracle_pack import dtype_name
from oracle_reference import clone_tensor, flatten_outputs, named_tensors, seed_all, DRAW_SEED
from oracle_proof_operators import Evaluator
from oracle_proof_steps import Graph, Outside, Sym

aten = torch.ops.aten

# Operators that torch can say in simpler ones, beside those that its own list of core operators
# leaves.
DECOMPOSED = """native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training gelu _softmax _log_softmax elu leaky_relu hardtanh std std_mean addmm addmv
    addbmm baddbmm linalg_vector_norm norm upsample_bilinear2d _adaptive_avg_pool2d cosine_similarity hardswish
    hardsigmoid silu mish softplus celu selu glu log_sigmoid_forward logsumexp mse_loss smooth_l1_loss huber_loss
    binary_cross_entropy binary_cross_entropy_with_logits nll_loss_forward soft_margin_loss softshrink hardshrink
    threshold logit lerp addcmul addcdiv square rsub xlogy trace pixel_shuffle pixel_unshuffle mv dot
    upsample_nearest2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d nan_to_num logaddexp logaddexp2 dist
    l1_loss kl_div margin_ranking_loss prelu _weight_norm_interface _fused_rms_norm rms_norm _cdist_forward cdist
    _euclidean_dist _scaled_dot_product_flash_attention_for_cpu eye linspace square aminmax
    softmax_backward_data""".split()


def decompositions():
    table = dict(torch._decomp.core_aten_decompositions())
    packets = [getattr(aten, n) for n in DECOMPOSED if hasattr(aten, n)]
    for op, function in torch._decomp.get_decompositions(packets).items():
        table.setdefault(op, function)
    return table


def export(model, call):
    """The reference's graph over its tensors and parameters, without operators that change an
    argument."""
    tensors, state = call.tensors(), named_tensors(model)
    names = [n for n, _ in state]

    def function(inputs, values):
        following = iter(inputs)
        c = call.map(lambda t: next(following))
        return flatten_outputs(torch.func.functional_call(model, dict(zip(names, values)), tuple(c.args), c.kwargs,
                                                          tie_weights=False))

    args = ([clone_tensor(t) for t in tensors], [t.detach().clone() for _, t in state])
    table = decompositions()
    with torch.no_grad():
        graph = make_fx(torch.func.functionalize(function, remove="mutations"), decomposition_table=table)(*args)
        if any(is_mutation(n) for n in graph.graph.nodes):
            graph = make_fx(torch.func.functionalize(graph, remove="mutations"), decomposition_table=table)(*args)
        graph.output_dtypes = [t.dtype for t in graph(*args)]
    return graph


def is_mutation(n):
    return n.op == "call_function" and hasattr(n.target, "_schema") and n.target._schema.is_mutable and bool(n.users)


def image_table(t):
    """Where a strided tensor's elements lie in its memory, first to last element."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride())) if t.numel() else 0
    return (torch.arange(extent).as_strided(t.shape, t.stride()) if t.numel() else torch.zeros(t.shape,
        dtype=torch.int64), extent)


def leaves(g, tensors, state, fixed):
    """The arguments of the exported function: exact where they are floats."""
    inputs, params = [], []
    for i, t in enumerate(tensors):
        if not t.dtype.is_floating_point:
            inputs.append(t)
            continue
        table, extent = image_table(t)
        memory = Sym(g.add("input", extent, index=i, fixed=fixed[i]), (extent,), t.dtype)
        is_plain = t.is_contiguous() and extent == t.numel()
        inputs.append(Sym(memory.node, t.shape, t.dtype) if is_plain else g.take([memory], table, t.dtype))
    for name, t in state:
        params.append(Sym(g.add("param", t.numel(), name=name), t.shape, t.dtype) if t.dtype.is_floating_point
                      else t.detach().clone())
    return inputs, params


def run(g, graph, inputs, params):
    values, outputs = {}, None
    flat = iter(inputs + params)
    evaluator = Evaluator(g)
    for n in graph.graph.nodes:
        if n.op == "placeholder":
            values[n] = next(flat)
        elif n.op == "get_attr":
            t = getattr(graph, n.target)
            values[n] = g.constant(t) if t.dtype.is_floating_point else t
        elif n.op == "call_function":
            if is_unused_change(n):
                continue
            args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda m: values[m])
            values[n] = evaluator.call(n.target, args, kwargs)
        elif n.op == "output":
            outputs = pytree.tree_leaves(torch.fx.node.map_arg(n.args[0], lambda m: values[m]),
                                         is_leaf=lambda v: isinstance(v, Sym))
    return [o if isinstance(o, Sym) else g.constant(o) for o in outputs]


def is_unused_change(n):
    """Writing a result back into an argument: the outputs are not touched by it."""
    return hasattr(n.target, "_schema") and n.target._schema.is_mutable and not n.users


def constant_elements(g, tensors, others):
    """For each float input, which elements are the same in every draw though the input is not:
    zeros of a triangular matrix, say. -1: none."""
    fixed = []
    for t, o in zip(tensors, others):
        same = torch.zeros((), dtype=torch.bool)
        if t.dtype.is_floating_point and t.numel() and not torch.equal(t, o):
            same = t == o
        if not same.any():
            fixed.append(-1)
            continue
        table, extent = image_table(t)
        memory = torch.zeros(extent, dtype=torch.uint8)
        memory[table[same]] = 1
        fixed.append(g.place(memory))
    return fixed


def describe(variant, seed, given, graph=None):
    """One draw: the message's body, its tables, and the exported graph, which is the same for all
    draws: an export that would depend on a tensor's values ends with an error. Inputs and
    parameters go into `given`."""
    # A real point: random parameters, and two draws of inputs. What is equal in both is a constant.
    model = variant.fresh_model()
    oracle_state.randomise_state(model, seed)
    call, other = variant.inputs(seed), variant.inputs(seed + 1)
    state, tensors = named_tensors(model), call.tensors()
    g = Graph()
    message = {"inputs": [], "params": []}
    # Inputs and parameters go into memory that both processes see.
    for t in tensors:
        offset, size = given.add(t)
        message["inputs"].append({"offset": offset, "bytes": size, "dtype": dtype_name(t)})
    places = {}                 # one parameter of two names lies in one place, by which src/prove knows it
    for name, t in state:
        tied = (t.data_ptr(), t.numel(), t.dtype)
        offset, size = places[tied] = places.get(tied) or given.add(t.contiguous())
        message["params"].append({"name": name, "offset": offset, "bytes": size, "dtype": dtype_name(t)})
    # The reference's graph at that point.
    if variant.draws:
        raise Outside("a forward that draws random numbers")
    seed_all(DRAW_SEED)
    graph = graph or export(model, call)
    inputs, params = leaves(g, tensors, state, constant_elements(g, tensors, other.tensors()))
    outputs = run(g, graph, inputs, params)
    message["nodes"] = g.nodes
    message["outputs"] = [{"node": o.node, "dtype": str(d).removeprefix("torch."), "shape": list(o.shape)}
                          for o, d in zip(outputs, graph.output_dtypes)]
    return message, g.pack, graph
