"""What the reference costs: a log of the operators that its forward dispatches, as eager launches
and as the launches of an ideal fuser.

Eager: one launch for each operator that computes. Fused: neighbouring operators that are no matrix
products become one launch that reads each tensor from outside once and writes only what someone
outside needs. docs/cost-model.md turns both into times; the better one is the reference."""
import math
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from oracle_faults import theirs

SPECIAL = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "erfc", "sin", "cos",
           "tan", "sqrt", "rsqrt", "pow", "div",
           "reciprocal", "gelu", "silu", "mish", "softplus", "elu", "celu", "selu", "atan", "asin", "acos", "sinh",
           "cosh", "logit", "log_sigmoid_forward",
           "_softmax", "_log_softmax", "logsumexp", "hardswish"}
# operators that are one eager kernel but several operations an element
WEIGHT = {"_softmax": 5, "_log_softmax": 5, "native_layer_norm": 8, "native_batch_norm": 8,
          "_native_batch_norm_legit": 8, "native_group_norm": 8,
          "_fused_rms_norm": 6, "gelu": 8, "silu": 4, "mish": 8, "var": 4, "var_mean": 4, "std": 4, "logsumexp": 4,
          "cudnn_batch_norm": 8}
# operators that put their operands side by side
JOINS = {"cat", "stack"}
# operators that read chosen elements of their first tensor
PICKS = {"embedding", "index_select", "index", "gather", "take", "take_along_dim"}
FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "_unsafe_view",
        "lift_fresh", "_local_scalar_dense",
        "resize_", "set_", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"}
# operators that make whole numbers of others
ROUNDINGS = {"round", "floor", "ceil", "trunc", "fix", "frac", "remainder", "fmod", "floor_divide", "bucketize",
             "searchsorted", "fake_quantize_per_tensor_affine", "quantize_per_tensor"}


def name_of(func):
    """round_ and round.decimals are round."""
    return func._schema.name.split("::")[-1].rstrip("_")


class OpLog(TorchDispatchMode):
    """Rows of (name, tensors read, tensors written, flops, special, dot_flops, form, extent, bytes
    read again). Tensors are kept alive, so that a storage's object names it."""

    def __init__(self):
        super().__init__()
        self.rows = []
        self.alive = []
        self.narrows = False         # some tensor is of fp16, bf16 or fp8
        self.rounds = False          # some tensor is rounded to whole numbers

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def _note(self, func, args, kwargs, out):
        tensors = tensors_in((args, kwargs, out))
        self.alive += tensors
        self.narrows |= any(t.is_floating_point() and t.element_size() < 4 for t in tensors)
        # A float's bits as a whole number are its own digits to do with what it wants.
        self.rounds |= name_of(func) in ROUNDINGS or (
            (name_of(func) == "_to_copy" or func is torch.ops.aten.view.dtype)
            and args[0].is_floating_point() and not out.is_floating_point())
        row = row_of(func, args, kwargs, out)
        if row:
            self.rows.append(row)


def tensors_in(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def row_of(func, args, kwargs, out):
    """(name, tensors read, tensors written, flops, special, dot_flops, form, extent, bytes read
    again) of an operator that ran; None for a view and what else launches nothing."""
    name = func._schema.name.split("::")[-1]
    reads, outs = tensors_in((args, kwargs)), tensors_in(out)
    is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
    if is_view or name in FREE or not outs or (name in ("_to_copy", "clone", "contiguous") and not outs[0].numel()):
        return None
    base = name.rstrip("_")
    formula = flop_registry.get(func._overloadpacket)
    dot = 0
    if formula is not None:
        try:
            dot = int(formula(*args, **kwargs, out_val=out))
        except theirs():
            formula = None
    if base in ("mv", "addmv"):          # products that torch has no formula for
        dot = 2 * max(t.numel() for t in reads)
    elements = max([t.numel() for t in outs] + [t.numel() for t in reads])
    flops = 0 if dot else elements * WEIGHT.get(base, 1)
    form = form_of(func, args, kwargs, reads, outs)
    # A sum over windows that overlap, or over an expanded tensor, reads elements as often as they
    # stand in it.
    again = 0
    if form in SUMS and name not in JOINS:
        again = max(reads[0].numel() * reads[0].element_size() - _unique_bytes(reads[:1]), 0)
    return (name, reads, outs, flops, elements if base in SPECIAL and not dot else 0, dot, form,
            extent_of(func, args, kwargs, reads, outs, dot), again)


SUMS = ("last", "other", "all")


def _steps(t):
    """The dimension whose neighbours are nearest in memory; -1 where there is but one element."""
    return min((d for d in range(t.dim()) if t.shape[d] > 1), key=lambda d: t.stride(d), default=-1)


def form_of(func, args, kwargs, reads, outs):
    """What decides which of its kernels an operator takes, beside its size: "last" where it works
    along the dimension whose elements are neighbours, "other" along another (or reads and writes in
    different orders), "all" over everything, or where whole operands are put one behind the other,
    "broadcast" where operands differ, "byte" where they are of one byte an element, "training",
    "groups" and "transposed" of a convolution; "" where nothing of that is so."""
    given = _given(func, args, kwargs)
    if given.get("training", given.get("train")) is True:
        return "training"
    if given.get("groups", 1) != 1:
        return "groups"
    if given.get("transposed") is True:
        return "transposed"
    if not reads or not outs:
        return ""
    t = reads[0]
    plain = "byte" if t.element_size() == 1 else ""
    if func._schema.name in ("aten::clone", "aten::_to_copy", "aten::copy_"):
        return "other" if _steps(reads[-1]) != _steps(outs[0]) and reads[-1].shape == outs[0].shape else plain
    if func._schema.name.removeprefix("aten::") in JOINS:
        return "all" if math.prod(t.shape[:given["dim"] % max(outs[0].dim(), 1)]) == 1 else ""
    if not any(a.name == "dim" for a in func._schema.arguments):
        if outs[0].numel() == 1 < t.numel():
            return "all"
        # Operands of other shapes or orders cost an element-wise kernel its wide loads.
        is_plain = all(r.numel() == 1 or (r.shape == outs[0].shape and _steps(r) == _steps(outs[0])) for r in reads)
        return "" if torch.Tag.pointwise not in func.tags else plain if is_plain else "broadcast"
    dims = given.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    if not dims:
        return "all"
    dims = {d % max(t.dim(), 1) for d in dims}
    if all(d in dims or t.shape[d] == 1 for d in range(t.dim())):
        return "all"
    return "last" if _steps(t) in dims else "other"


def _given(func, args, kwargs):
    known = func._schema.arguments
    return {a.name: a.default_value for a in known if a.has_default_value()} | {a.name: v for a,
            v in zip(known, args)} | kwargs


def extent_of(func, args, kwargs, reads, outs, dot):
    """How many elements go into one result, or into the statistics of one: of a sum along rows
    their length, of a product K. What an operator does side by side is all elements over this. Of
    cat and stack: how many neighbours of one operand stay neighbours."""
    given, t = _given(func, args, kwargs), reads[0] if reads else outs[0]
    dims = given.get("dim")
    if func._schema.name.removeprefix("aten::") in JOINS:
        return max(math.prod(t.shape[given["dim"] % max(outs[0].dim(), 1):]), 1)
    if dot:
        return max(dot // max(2 * outs[0].numel(), 1), 1)
    if given.get("normalized_shape"):
        return math.prod(given["normalized_shape"])
    if func._schema.name == "aten::native_group_norm":
        return given["C"] * given["HxW"] // given["group"]
    if "batch_norm" in func._schema.name and t.dim() > 1:
        return max(t.numel() // max(t.shape[1], 1), 1)
    if "upsample" in func._schema.name and "linear" in func._schema.name:
        return max(math.prod(outs[0].shape[:2]), 1)      # one thread a pixel, for all images and channels
    if any(a.name == "dim" for a in func._schema.arguments):
        dims = [dims] if isinstance(dims, int) else dims or range(t.dim())
        return max(math.prod(t.shape[d] for d in dims if -t.dim() <= d < t.dim()), 1)
    return max(t.numel() // max(outs[0].numel(), 1), 1)


def _extent_bytes(t):
    """Distinct bytes that a view can touch: an expanded tensor is read once."""
    n = 1
    for size, stride in zip(t.shape, t.stride()):
        n *= size if stride else 1
    return n * t.element_size()


def _unique_bytes(tensors, keep=None):
    seen = {}
    for t in tensors:
        key = t.untyped_storage()._cdata     # tensors without contents have no addresses
        if t.numel() and (keep is None or key in keep):
            seen[key] = max(seen.get(key, 0), min(_extent_bytes(t), t.untyped_storage().nbytes()))
    return sum(seen.values())


def _storages(tensors):
    return {t.untyped_storage()._cdata for t in tensors if t.numel()}


def launch_of(rows, written_needed=None):
    """One launch made of several operators; written_needed: storages that someone outside reads."""
    reads, made, spared = [], set(), 0
    for name, r, w, *_rest in rows:
        outside = [t for t in r if t.numel() and t.untyped_storage()._cdata not in made]
        # Of a table no more is read than comes out.
        if name in PICKS and outside and outside[0] is r[0]:
            spared += max(_unique_bytes(outside[:1]) - _unique_bytes(w), 0)
        reads += outside
        made |= _storages(w)
    writes = [t for _, _, w, *_rest in rows for t in w]
    elements = max([t.numel() for _, r, w, *_rest in rows for t in r + w] + [1])
    return {"name": "+".join(r[0] for r in rows)[:120],
            "bytes": max(_unique_bytes(reads) - spared, 0) + _unique_bytes(writes, written_needed),
            "flops": sum(r[3] for r in rows),
            "special": sum(r[4] for r in rows), "dot_flops": sum(r[5] for r in rows), "elements": elements,
            "form": rows[0][6] if len(rows) == 1 else "",
            "extent": rows[0][7] if len(rows) == 1 else 1}


COPIES = {"clone", "_to_copy", "copy_"}
COPY_DIMS = 12


def copy_of(name, reads, outs):
    """How a copy reads and writes, in bytes, of one between views of a shape that lie otherwise;
    None of every other."""
    if name not in COPIES or not reads or not outs:
        return None
    t, out = reads[-1], outs[0]
    if t.shape != out.shape or t.stride() == out.stride() or not 0 < t.dim() <= COPY_DIMS or not out.numel():
        return None
    to, of = out.element_size(), t.element_size()
    return {"shape": list(out.shape), "to": [s * to for s in out.stride()], "from": [s * of for s in t.stride()],
            "sizes": [to, of]}


def eager_of(row):
    """The launch of PyTorch's own operator."""
    launch = launch_of([row])
    launch["bytes"] += row[8]
    copy = copy_of(row[0], row[1], row[2])
    return launch | {"copy": copy} if copy else launch


def launches(log, outputs):
    """(eager, fused): lists of launches of one forward call."""
    eager = [eager_of(row) for row in log.rows]
    moved, touched = 0, {}
    for launch, (_, reads, writes, *_rest) in zip(eager, log.rows):
        # Of what it reads, the share that an earlier operator touched, and how many bytes have
        # moved since.
        read = {t.untyped_storage()._cdata: _unique_bytes([t]) for t in reads if t.numel()}
        again = [key for key in read if key in touched]
        launch["warm"] = sum(read[key] for key in again) / max(sum(read.values()), 1)
        launch["since"] = max([moved - touched[key] for key in again], default=0)
        moved += launch["bytes"]
        touched |= dict.fromkeys(_storages(reads + writes), moved)
    groups = []
    for row in log.rows:
        if row[5] or not groups or groups[-1][0][5]:
            groups.append([row])
        else:
            groups[-1].append(row)
    fused = []
    for i, group in enumerate(groups):
        needed = _storages(outputs)
        for later in groups[i + 1:]:
            for row in later:
                needed |= _storages(row[1])
        fused.append(launch_of(group, needed))
    return eager, fused
