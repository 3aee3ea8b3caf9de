"""tracer_movement: torch operators that only move data, expressed as fills and strided copies.

Movement adds no computation: each element of the result is an element of an operand (cast at most)
or a constant. What cannot be said with non-negative strides and a bounded number of copies is left
to the library rows (handlers return NotImplemented).

Handlers take (tracer, func, args, kwargs) of unknown operands and return what the operator returns.
Shapes come from the operator's own meta kernel, so that they are right in every corner.
"""
import itertools
import math

import torch

from tracer_operators import argument
from tracer_record import numel
from tracer_tensor import META, TraceTensor, is_cuda_device

COPIES_MAX = 256      # of one operator


def view(buf, offset, dtype, shape, stride):
    return (buf, offset, dtype, tuple(shape), tuple(stride))


def expand_view(src, shape):
    """Broadcasts a view to `shape` with strides of 0."""
    buf, offset, dtype, s, st = src
    lead = len(shape) - len(s)
    stride = [0] * lead + [0 if s[i] == 1 and shape[lead + i] != 1 else st[i] for i in range(len(s))]
    return view(buf, offset, dtype, shape, stride)


def narrow_view(src, dim, start, length):
    buf, offset, dtype, s, st = src
    shape = list(s)
    shape[dim] = length
    return view(buf, offset + (start * st[dim] * dtype.itemsize if numel(src) else 0), dtype, shape, st)


def select_view(src, dim, index):
    buf, offset, dtype, s, st = narrow_view(src, dim, index, 1)
    return view(buf, offset, dtype, s[:dim] + s[dim + 1:], st[:dim] + st[dim + 1:])


def meta_result(tracer, func, args, kwargs):
    """The operator's result as a new tensor without contents."""
    inputs = {}
    kwargs = dict(kwargs)
    if "device" in kwargs:
        kwargs["device"] = META
    kwargs.pop("non_blocking", None)
    out = func(*tracer.to_meta(args, inputs), **tracer.to_meta(kwargs, inputs))
    return tracer.rewrap(out, inputs)


def source(tracer, value):
    """Any tensor operand as a trace tensor; a CPU tensor becomes a constant."""
    return value if isinstance(value, TraceTensor) else tracer.lift(value)


# ---- handlers ----

def move_clone(tracer, func, args, kwargs):
    src = args[0]
    out = meta_result(tracer, func, args, kwargs)
    if out is not src and out._buffer is not src._buffer:
        tracer.rec.copy(out.view_tuple(), src.view_tuple())
    return out


def move_copy_(tracer, func, args, kwargs):
    dst, src = args[0], source(tracer, args[1])
    torch.broadcast_shapes(dst.shape, src.shape)
    tracer.rec.copy(dst.view_tuple(), expand_view(src.view_tuple(), dst.shape))
    return dst


def move_fill_(tracer, func, args, kwargs):
    dst = args[0]
    value = 0 if func._schema.name == "aten::zero_" else args[1]
    if isinstance(value, TraceTensor):
        tracer.rec.copy(dst.view_tuple(), expand_view(value.view_tuple(), dst.shape))
        return dst
    if isinstance(value, torch.Tensor):
        value = value.item()
    tracer.rec.fill(dst.view_tuple(), value, dst.dtype)
    return dst


def move_cat(tracer, func, args, kwargs):
    parts = args[0]
    out = meta_result(tracer, func, args, kwargs)
    dim = argument(func, args, kwargs, "dim") % out.dim()
    at = 0
    for part in parts:
        part = source(tracer, part)
        if part.dim() == 1 and part.numel() == 0 and out.dim() != 1:
            continue
        size = part.shape[dim]
        tracer.rec.copy(narrow_view(out.view_tuple(), dim, at, size), part.view_tuple())
        at += size
    return out


def move_stack(tracer, func, args, kwargs):
    out = meta_result(tracer, func, args, kwargs)
    dim = argument(func, args, kwargs, "dim") % out.dim()
    for i, part in enumerate(args[0]):
        tracer.rec.copy(select_view(out.view_tuple(), dim, i), source(tracer, part).view_tuple())
    return out


def move_pad(tracer, func, args, kwargs):
    src, pad = args[0], args[1]
    value = args[2] if len(args) > 2 else kwargs.get("value", 0)
    out = meta_result(tracer, func, args, kwargs)
    tracer.rec.fill(out.view_tuple(), 0 if value is None else value, out.dtype)
    dst_view, src_view = out.view_tuple(), src.view_tuple()
    for i in range(len(pad) // 2):
        dim = src.dim() - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        start, length = max(-before, 0), src.shape[dim] + min(before, 0) + min(after, 0)
        src_view = narrow_view(src_view, dim, start, length)
        dst_view = narrow_view(dst_view, dim, max(before, 0), length)
    tracer.rec.copy(dst_view, src_view)
    return out


def move_repeat(tracer, func, args, kwargs):
    """(r0 s0, r1 s1, ...) seen as (r0, s0, r1, s1, ...): one copy from a broadcast."""
    src, repeats = args[0], list(args[1])
    out = meta_result(tracer, func, args, kwargs)
    if 2 * len(repeats) > 12:
        return NotImplemented
    _, _, _, _, out_stride = out.view_tuple()
    buf, offset, dtype, s, st = expand_lead(src.view_tuple(), len(repeats))
    shape, dst_stride, src_stride = [], [], []
    for r, n, n_stride, o_stride in zip(repeats, s, st, out_stride):
        shape += [r, n]
        dst_stride += [o_stride * n, o_stride]
        src_stride += [0, n_stride]
    dst = out.view_tuple()
    tracer.rec.copy(view(dst[0], dst[1], dst[2], shape, dst_stride), view(buf, offset, dtype, shape, src_stride))
    return out


def expand_lead(src, ndim):
    buf, offset, dtype, s, st = src
    lead = ndim - len(s)
    return view(buf, offset, dtype, (1,) * lead + s, (0,) * lead + st)


def move_roll(tracer, func, args, kwargs):
    src = args[0]
    shifts = as_list(args[1])
    dims = as_list(argument(func, args, kwargs, "dims") or [])
    if not dims or len(shifts) != len(dims) or 2 ** len(dims) > COPIES_MAX:
        return NotImplemented
    out = meta_result(tracer, func, args, kwargs)
    dims = [d % src.dim() for d in dims]
    if len(set(dims)) != len(dims):
        return NotImplemented
    pieces = []
    for shift, dim in zip(shifts, dims):
        n = src.shape[dim]
        k = shift % n if n else 0
        pieces.append([(dim, 0, k, n - k), (dim, n - k, 0, k)])   # (dim, from, to, length)
    for combo in itertools.product(*pieces):
        s, d = src.view_tuple(), out.view_tuple()
        for dim, start, to, length in combo:
            s, d = narrow_view(s, dim, start, length), narrow_view(d, dim, to, length)
        tracer.rec.copy(d, s)
    return out


def move_flip(tracer, func, args, kwargs):
    src = args[0]
    dims = [d % src.dim() for d in args[1]]
    if math.prod(src.shape[d] for d in dims) > COPIES_MAX:
        return NotImplemented
    out = meta_result(tracer, func, args, kwargs)
    for index in itertools.product(*(range(src.shape[d]) for d in dims)):
        s, d = src.view_tuple(), out.view_tuple()
        for dim, i in zip(dims, index):
            s, d = narrow_view(s, dim, i, 1), narrow_view(d, dim, src.shape[dim] - 1 - i, 1)
        tracer.rec.copy(d, s)
    return out


def move_scatter(narrow):
    """slice_scatter and select_scatter: a copy of the operand with one region replaced."""
    def handler(tracer, func, args, kwargs):
        base, part = args[0], source(tracer, args[1])
        out = meta_result(tracer, func, args, kwargs)
        tracer.rec.copy(out.view_tuple(), base.view_tuple())
        tracer.rec.copy(narrow(func, args, kwargs, out.view_tuple()), part.view_tuple())
        return out
    return handler


def narrow_slice(func, args, kwargs, out):
    dim = argument(func, args, kwargs, "dim") % len(out[3])
    n = out[3][dim]
    start, stop, step = slice(argument(func, args, kwargs, "start"), argument(func, args, kwargs, "end"),
                              argument(func, args, kwargs, "step")).indices(n)
    buf, offset, dtype, shape, stride = narrow_view(out, dim, start, max(0, -(-(stop - start) // step)))
    stride = list(stride)
    stride[dim] *= step
    return view(buf, offset, dtype, shape, stride)


def narrow_select(func, args, kwargs, out):
    dim = argument(func, args, kwargs, "dim") % len(out[3])
    return select_view(out, dim, argument(func, args, kwargs, "index") % out[3][dim])


def move_shuffle(tracer, func, args, kwargs):
    """pixel_shuffle and pixel_unshuffle: one permuted copy."""
    src, r = args[0], args[1]
    out = meta_result(tracer, func, args, kwargs)
    up = func._schema.name == "aten::pixel_shuffle"
    small, big = (src, out) if up else (out, src)          # (..., C r r, H, W), (..., C, H r, W r)
    if src.dim() + 2 > 12:
        return NotImplemented
    lead = list(small.shape[:-3])
    c = big.shape[-3]
    h, w = small.shape[-2:]
    shape = lead + [c, r, r, h, w]
    sb, so, sd, _, ss = small.view_tuple()
    bb, bo, bd, _, bs = big.view_tuple()
    small_view = view(sb, so, sd, shape, list(ss[:-3]) + [ss[-3] * r * r, ss[-3] * r, ss[-3], ss[-2], ss[-1]])
    big_view = view(bb, bo, bd, shape, list(bs[:-3]) + [bs[-3], bs[-2], bs[-1], bs[-2] * r, bs[-1] * r])
    tracer.rec.copy(*((big_view, small_view) if up else (small_view, big_view)))
    return out


def move_to_copy(tracer, func, args, kwargs):
    src = args[0]
    if kwargs.get("device") is not None and not is_cuda_device(kwargs["device"]):
        return NotImplemented
    if isinstance(src, TraceTensor):
        return move_clone(tracer, func, args, kwargs)
    lifted = tracer.lift(src)
    dtype = kwargs.get("dtype")
    return lifted if dtype is None or dtype == src.dtype else lifted.to(dtype)


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


HANDLERS = {
    "aten::clone": move_clone,
    "aten::contiguous": move_clone,
    "aten::_to_copy": move_to_copy,
    "aten::copy_": move_copy_,
    "aten::fill_": move_fill_,
    "aten::zero_": move_fill_,
    "aten::cat": move_cat,
    "aten::stack": move_stack,
    "aten::constant_pad_nd": move_pad,
    "aten::repeat": move_repeat,
    "aten::roll": move_roll,
    "aten::flip": move_flip,
    "aten::slice_scatter": move_scatter(narrow_slice),
    "aten::select_scatter": move_scatter(narrow_select),
    "aten::pixel_shuffle": move_shuffle,
    "aten::pixel_unshuffle": move_shuffle,
}
