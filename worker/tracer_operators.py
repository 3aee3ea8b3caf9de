"""What torch says of an operator by its name and its schema: which ones allocate, fill, view or are
refused, what runs on CUDA for one of a user's own, and an argument by its name; and the shapes of
one operator for which torch has none.

What an operator means for the tape is tracer_tensor.py."""
import torch

EMPTY_OPS = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::empty_permuted", "aten::new_empty",
             "aten::new_empty_strided"}
FILL_OPS = {"aten::zeros": 0, "aten::zeros_like": 0, "aten::new_zeros": 0, "aten::ones": 1, "aten::ones_like": 1,
            "aten::new_ones": 1, "aten::full": "fill_value", "aten::full_like": "fill_value",
            "aten::new_full": "fill_value"}
IGNORED_OPS = {"aten::record_stream"}
PINNED_OPS = {"aten::is_pinned", "aten::_pin_memory"}
UNSUPPORTED_OPS = {"aten::set_", "aten::resize_", "aten::resize_as_", "aten::set_data"}
# Views whose elements are others than their memory's: a kernel and a tape know the memory alone.
LAZY_OPS = {"aten::_neg_view", "aten::_conj"}
VIEWED_IN_PLACE = {"aten::squeeze_", "aten::unsqueeze_", "aten::transpose_", "aten::t_", "aten::as_strided_",
                   "aten::swapaxes_", "aten::swapdims_"}
LIBRARY_NAMESPACES = frozenset(("aten", "prim", "prims", "quantized", "_quantized", "inductor", "higher_order",
                                "profiler", "mkldnn", "debugprims", "rngprims"))


def custom_body(func):
    """What runs on CUDA for an operator that torch does not bring along; None where there is
    nothing."""
    definition = torch._library.custom_ops._maybe_get_opdef(func)
    if definition is not None:
        return definition._backend_fns.get("cuda") or definition._backend_fns.get(None)
    if torch._C._dispatch_has_computed_kernel_for_dispatch_key(func.name(), "CUDA"):
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
        return lambda *args, **kwargs: func.redispatch(keys, *args, **kwargs)
    return None


_TAGS = {}


def tag_names(func):
    tags = _TAGS.get(func)
    if tags is None:
        tags = _TAGS[func] = frozenset(tag.name for tag in func.tags)
    return tags


def is_view(func):
    """Makes no memory and computes nothing: its result is an alias that nobody wrote."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def is_pure(func):
    """Neither writes an operand nor returns a view of one."""
    return not func._schema.is_mutable and all(r.alias_info is None for r in func._schema.returns)


def is_dead_dropout(func, args):
    """Dropout that drops nothing draws nothing that matters."""
    return func._schema.name == "aten::native_dropout" and (args[1] == 0 or args[2] is False)


def argument(func, args, kwargs, name):
    for i, a in enumerate(func._schema.arguments):
        if a.name == name:
            if i < len(args):
                return args[i]
            return kwargs.get(name, a.default_value)
    return None


@torch.library.register_fake("aten::_thnn_fused_gru_cell")
def gru_cell_shapes(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    """torch has none of its own: the new state, and five parts of it for a backward pass."""
    return torch.empty_like(hx), hx.new_empty((hx.shape[0], 5 * hx.shape[1]))
