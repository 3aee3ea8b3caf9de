"""Library rows of a tape, computed by torch itself: the part of a candidate's forward that is no
kernel of its own.

A process of its own, forked from the oracle's zygote and sandboxed like a task's, without the
candidate's code and without any reference: it knows the rows' names and arguments and one shared
piece of memory, in which a row's operands lie one after another (src/tape/tape.h,
tape_library_layout). What a row asks for is a stranger's word: only operators of torch's own
namespace are called, on copies, and whatever one does to this process is the candidate's doing.
docs/worker-protocol.md has the messages."""
import mmap

import torch
from torch.utils import _pytree as pytree

import wire

DTYPES = {name: getattr(torch, name)
          for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int16",
                       "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")}
NAMESPACE = "aten::"
# where and how, never what
PLACES = ("device", "layout", "pin_memory", "memory_format", "generator", "non_blocking")
NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class CannotCompute(Exception):
    pass


# Operators that only a GPU has, which torch chooses there for an ordinary call: the same by the
# operators that every device has. What they give beside the result is for the backward pass, and
# nobody wrote it here.

def batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    return torch.native_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor,
                                   epsilon)[0]


def attention(query, key, value, attn_bias=None, compute_log_sumexp=False, dropout_p=0.0, is_causal=False,
              return_debug_mask=False, scale=None):
    if dropout_p:
        raise CannotCompute("attention with dropout is random")
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attn_bias, is_causal=is_causal,
                                                            scale=scale)


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    gates = sum(t for t in (input_gates, hidden_gates, input_bias, hidden_bias) if t is not None)
    i, f, g, o = gates.chunk(4, -1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy


def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    biased = [gates if bias is None else gates + bias
              for gates, bias in ((input_gates, input_bias), (hidden_gates, hidden_bias))]
    (ri, zi, ni), (rh, zh, nh) = (gates.chunk(3, -1) for gates in biased)
    n = (ni + (ri + rh).sigmoid() * nh).tanh()
    return n + (zi + zh).sigmoid() * (hx - n)


SUBSTITUTES = {
    "aten::cudnn_batch_norm": batch_norm,
    "aten::_scaled_dot_product_flash_attention": attention,
    "aten::_scaled_dot_product_efficient_attention": attention,
    "aten::_scaled_dot_product_cudnn_attention": attention,
    "aten::_thnn_fused_lstm_cell": lstm_cell,
    "aten::_thnn_fused_gru_cell": gru_cell,
}


def operator(name):
    """The operator of a name such as aten::add.Tensor."""
    base, _, overload = name.removeprefix(NAMESPACE).partition(".")
    if not name.startswith(NAMESPACE):
        raise CannotCompute(f"{name} is no operator of torch's own")
    try:
        return getattr(getattr(torch.ops.aten, base), overload or "default")
    except AttributeError:
        raise CannotCompute(f"torch has no operator {name}") from None


def value(v, tensors):
    """An argument as the tracer wrote it (tracer_tensor.py, argument_json)."""
    if isinstance(v, list):
        return [value(x, tensors) for x in v]
    if isinstance(v, str):
        return NUMBERS.get(v, v)
    if not isinstance(v, dict):
        return v
    if "view" in v:
        return tensors[v["view"]]
    if "dtype" in v and "scalar" in v:
        return torch.tensor(value(v["scalar"], tensors), dtype=DTYPES[v["dtype"]])
    if "dtype" in v:
        return DTYPES[v["dtype"]]
    raise CannotCompute(f"an argument of the form {sorted(v)}")


def call(row, tensors):
    """The operator on these tensors. Returns what it wrote, in the order of the row's writes:
    arguments that it changes, then new tensors."""
    func = operator(row["name"])
    schema = func._schema.arguments
    args = row["args"].get("args", [])
    given = {a.name: v for a, v in zip(schema, args)} | row["args"].get("kwargs", {})
    given = {k: value(v, tensors) for k, v in given.items() if k not in PLACES}
    if row["name"] in SUBSTITUTES:
        with torch.no_grad():
            return pytree.tree_leaves(SUBSTITUTES[row["name"]](**given))
    positional = []
    for a in schema:
        if a.kwarg_only or a.name not in given:
            break
        positional.append(given.pop(a.name))
    with torch.no_grad():
        out = func(*positional, **given)
    changed = [given.get(a.name, positional[i] if i < len(positional) else None) for i, a in enumerate(schema)
               if a.alias_info is not None and a.alias_info.is_write]
    known = {t.untyped_storage().data_ptr() for t in tensors}
    written = [t for t in pytree.tree_leaves(changed) if isinstance(t, torch.Tensor)]
    return (written + [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)
                       and (not t.numel() or t.untyped_storage().data_ptr() not in known)])


def compute(row, memory):
    operands = [tensor_at(v, memory) for v in row["reads"] + row["writes"]]
    reads, writes = [t.clone() for t in operands[:len(row["reads"])]], operands[len(row["reads"]):]
    found = call(row, reads)
    wanted = writes[:len(found)] if row["name"] in SUBSTITUTES else writes
    if [(t.shape, t.dtype) for t in found] != [(t.shape, t.dtype) for t in wanted]:
        raise CannotCompute("it gave other tensors here than when it was traced")
    for to in writes[len(found):]:
        to.view(torch.uint8).fill_(0xFF)
    for to, t in zip(writes, found):
        to.copy_(t)


def tensor_at(view, memory):
    dtype = DTYPES[view["dtype"]]
    count = 1
    for n in view["shape"]:
        count *= n
    if not count:
        return torch.empty(view["shape"], dtype=dtype)
    return torch.frombuffer(memory, dtype=torch.uint8, count=count * dtype.itemsize,
                            offset=view["offset"]).view(dtype).reshape(view["shape"])


def serve(job, sock):
    """Until the supervisor has asked for its last row."""
    torch.set_num_threads(1)
    _, fds = wire.recv(sock)
    memory = mmap.mmap(fds[0], 0)
    while True:
        try:
            message, _ = wire.recv(sock)
        except EOFError:
            return
        try:
            compute(job["library"][message["row"]], memory)
            wire.send(sock, {"done": True})
        except Exception as e:
            text = str(e) if isinstance(e, CannotCompute) else f"{type(e).__name__}: {e}"
            wire.send(sock, {"fault": wire.words(text[:300])})
