"""What each of torch's operators is in steps over exact values (oracle_proof_steps.py): one method
or one line of a table for each.

What depends on integers alone is computed here, since integers are concrete in a proof. What only
moves elements (views, cat, pad, gather, ...) is run on numbers of places instead of values, and
becomes a table."""
import math
import operator

import torch
from torch.utils import _pytree as pytree

from oracle_proof_steps import Outside, Sym

aten = torch.ops.aten

UNARY = {"exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
         "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "neg": "neg", "abs": "abs", "sign": "sign", "sgn": "sign",
         "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round to even", "sin": "sin", "cos": "cos",
         "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "asin", "acos": "acos", "atan": "atan",
         "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "sigmoid": "sigmoid", "erf": "erf", "erfc": "erfc",
         "erfinv": "erfinv", "lgamma": "lgamma", "reciprocal": "reciprocal", "special_ndtr": "normcdf"}
BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "max", "minimum": "min", "fmax": "max",
          "fmin": "min", "pow": "pow", "fmod": "fmod", "remainder": "remainder", "atan2": "atan2", "hypot": "hypot",
          "copysign": "copysign", "true_divide": "div"}
COMPARE = {"lt", "le", "gt", "ge", "eq", "ne"}
LOGIC = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "bitwise_and": "and", "bitwise_or": "or",
         "bitwise_xor": "xor", "__and__": "and", "__or__": "or", "logical_not": "not", "bitwise_not": "not"}
INTEGER = {"add": "int add", "sub": "int sub", "mul": "int mul"}
# Operators that move elements, and compute nothing.
MOVES = """view _unsafe_view reshape permute transpose t expand unsqueeze squeeze slice select flip roll as_strided
    unfold cat stack repeat narrow split split_with_sizes unbind chunk index index_select gather embedding
    constant_pad_nd slice_scatter select_scatter diagonal diagonal_scatter clone alias copy lift_fresh lift_fresh_copy
    detach contiguous movedim tile broadcast_in_dim broadcast_to index_put masked_fill take_along_dim view_copy
    expand_copy squeeze_copy unsqueeze_copy permute_copy slice_copy select_copy diagonal_copy as_strided_copy
    collapse_view split_dim rot90 tril triu _reshape_alias expand_as narrow_copy reflection_pad1d reflection_pad2d
    reflection_pad3d replication_pad1d replication_pad2d replication_pad3d channel_shuffle swapaxes unflatten flatten
    as_strided_scatter im2col pixel_shuffle scatter repeat_interleave""".split()
PRIMS = {"convert_element_type": "_to_copy", "iota": "iota", "amax": "amax", "amin": "amin"}


class Evaluator:
    """Runs an exported graph: integers by torch, everything else into steps."""

    def __init__(self, graph):
        self.g = graph

    def call(self, target, args, kwargs):
        if target is operator.getitem:
            return args[0][args[1]]
        name = target._schema.name.split("::")[-1]
        if name.endswith("_") and not name.endswith("__") and target._schema.is_mutable:
            raise Outside(f"{name}, which changes its argument")
        syms = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Sym)]
        if not syms:
            return self.make(target, name, args, kwargs)
        if all(s.known is not None for s in syms):
            return self.known(target, name, args, kwargs, syms)
        return self.apply(target, name, args, kwargs, syms)

    def known(self, target, name, args, kwargs, syms):
        """Nothing depends on an input: integers are computed, floats are steps whose values are
        known beside."""
        plain = pytree.tree_map(lambda v: v.known if isinstance(v, Sym) else v, (list(args), dict(kwargs)),
                                is_leaf=lambda v: isinstance(v, Sym))
        values = target(*plain[0], **plain[1])
        if not any(isinstance(t, torch.Tensor) and t.dtype.is_floating_point for t in pytree.tree_leaves(values)):
            return values
        steps = self.apply(target, name, args, kwargs, syms)
        if isinstance(steps, Sym) and isinstance(values, torch.Tensor):
            steps = Sym(steps.node, steps.shape, steps.dtype, values)
        return steps

    def make(self, target, name, args, kwargs):
        """Nothing exact among the operands: integers are torch's, floats become constants."""
        if torch.Tag.nondeterministic_seeded in target.tags:
            raise Outside(f"{name}, which draws random numbers")
        if name in ("empty", "empty_like", "new_empty", "empty_strided", "empty_permuted"):
            name, target = "zeros", target          # what nobody wrote is not read
            out = torch.zeros_like(target(*args, **kwargs), device="cpu")
        else:
            operands = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
            is_numeric = name in ("full", "scalar_tensor", "arange", "iota", "zeros", "ones", "full_like", "zeros_like",
                                  "ones_like", "eye", "new_full", "new_zeros", "new_ones", "fill", "lift_fresh_copy",
                                  "_to_copy", "convert_element_type", "empty")
            out = target(*args, **kwargs)
            first = pytree.tree_leaves(out)
            if (operands and not is_numeric
                    and any(isinstance(t, torch.Tensor) and t.dtype.is_floating_point for t in first)):
                # floats computed from integers: by steps, from the integers as exact numbers
                lifted = pytree.tree_map(lambda v: self.g.constant(v) if isinstance(v, torch.Tensor) else v,
                                         (list(args), dict(kwargs)))
                return self.apply(target, name, lifted[0], lifted[1], pytree.tree_leaves(lifted))
        return pytree.tree_map(lambda t: self.g.constant(t) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point
                               else t, out)

    def apply(self, target, name, args, kwargs, syms):
        rule = getattr(self, "op_" + name, None)
        floats = [s for s in syms if isinstance(s, Sym) and s.is_float]
        dtype = torch.float64 if any(s.dtype == torch.float64 for s in floats) else torch.float32
        # Operators with a rule of their own, then those that only move elements.
        if rule is not None:
            return rule(*args, **kwargs)
        if name in MOVES or (name == "where" and not isinstance(args[0], Sym)):
            return self.move(target, name, args, kwargs)
        g = self.g
        # Choices, comparisons and logic: integers are compared as integers, floats as floats.
        if name == "where":
            x, y = g.of(args[1], dtype), g.of(args[2], dtype)
            is_float = x.is_float or y.is_float
            x, y = (g.as_float(x), g.as_float(y)) if is_float else (x, y)
            return g.map("where", [args[0], x, y], dtype if is_float else x.dtype)
        if name in COMPARE:
            x, y = g.of(args[0], dtype), g.of(args[1], dtype)
            if not (x.is_float or y.is_float):
                return g.map("int " + name, [x, y], torch.bool)
            return g.map(name, [g.as_float(x), g.as_float(y)], torch.bool)
        if name in LOGIC and not floats:
            return g.map(LOGIC[name], [g.of(a, torch.int64) for a in args],
                         syms[0].dtype if name.startswith("b") else torch.bool)
        if name in LOGIC:
            return g.map(LOGIC[name], [self.truth(g.of(a, dtype)) for a in args], torch.bool)
        if name in ("isnan", "isinf", "isfinite"):
            return g.map(name, [syms[0]], torch.bool)
        # Element-wise arithmetic. What is left has no reading here.
        if name in UNARY:
            return g.float_map(UNARY[name], args[0], dtype=dtype)
        if name in BINARY:
            return self.binary(name, args, kwargs, dtype, floats)
        raise Outside(name)

    def truth(self, s):
        return s if not s.is_float else self.g.map("ne", [s, self.g.of(0.0, s.dtype)], torch.bool)

    def binary(self, name, args, kwargs, dtype, floats):
        g, (a, b) = self.g, args[:2]
        mode, alpha = kwargs.get("rounding_mode"), kwargs.get("alpha", 1)
        if len(args) > 2 and name in ("add", "sub"):
            alpha = args[2]
        if not floats and name in INTEGER and not isinstance(a, float) and not isinstance(b, float) and alpha == 1:
            return g.map(INTEGER[name], [g.of(a, torch.int64), g.of(b, torch.int64)], torch.int64)
        if not floats and name in ("add", "sub", "mul") and not isinstance(a, float) and not isinstance(b, float):
            raise Outside(f"{name} of integers")
        if alpha != 1:
            b = g.float_map("mul", b, alpha, dtype=dtype)
        out = g.float_map(BINARY[name], a, b, dtype=dtype)
        if mode is not None:
            out = g.float_map("floor" if mode == "floor" else "trunc", out, dtype=dtype)
        return out

    # ---- moves ----

    def move(self, target, name, args, kwargs):
        """The operator itself, on numbers of places."""
        sources, offset = [], 0
        dtype = next(v.dtype for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Sym))
        args, kwargs, fill = list(args), dict(kwargs), None
        # What fills the places that no element moves to.
        if name in ("constant_pad_nd",):
            fill = self.g.number(args[2] if len(args) > 2 else kwargs.pop("value", 0), 24)
            args = args[:2] + [-1]
        if name == "masked_fill" or name == "scatter" or (name == "index_put" and (len(args) > 3 and args[3])):
            raise Outside(name)
        if name in ("tril", "triu"):
            fill = self.g.number(0.0, 24)

        # An operand is replaced by the numbers of its own places, counted through all operands.
        def place(v):
            nonlocal offset
            if not isinstance(v, Sym):
                if isinstance(v, torch.Tensor) and not is_index(v):
                    v = self.g.constant(v)
                else:
                    return v
            sources.append(v)
            t = torch.arange(v.count).reshape(v.shape) + offset
            offset += v.count
            return t

        # Indices stay as they are; where they follow from data, elements are picked one by one.
        keeps = {"index": 1, "index_put": 1, "gather": 2, "index_select": 2, "embedding": 1, "take_along_dim": 1}
        at = keeps.get(name)

        def is_index(v):
            return id(v) in indices

        indices = {id(v) for v in pytree.tree_leaves(args[at])} if at is not None and at < len(args) else set()
        if name == "where":
            indices = {id(args[0])}
        if any(isinstance(v, Sym) for v in (pytree.tree_leaves(args[at]) if at is not None and at < len(args) else [])):
            return self.pick(name, args, dtype)
        if name == "where":
            args = ([args[0]] + [self.g.as_float(self.g.of(v, dtype)) if dtype.is_floating_point
                                 else self.g.of(v, dtype) for v in args[1:3]])
        if name == "copy":       # what was there is gone
            return self.g.moved(self.g.of(args[1], dtype), lambda t: t.expand(args[0].shape))
        if name == "tril" or name == "triu":
            t = getattr(torch, name)(torch.arange(args[0].count).reshape(args[0].shape) + 1, *args[1:]) - 1
            return self.g.take([args[0]], t, dtype, fill)
        # torch moves the numbers, which then say where each element of the result comes from.
        args, kwargs = pytree.tree_map(place, (args, kwargs), is_leaf=lambda v: isinstance(v, Sym))
        if name in ("copy", "clone", "alias", "detach", "lift_fresh", "lift_fresh_copy"):
            kwargs = {}
        if any(s.is_float for s in sources) and not all(s.is_float for s in sources):
            sources, dtype = [self.g.as_float(s) for s in sources], next(s.dtype for s in sources if s.is_float)
        out = target(*args, **kwargs)
        return pytree.tree_map(lambda t: self.g.take(sources, t, dtype, fill), out)

    def pick(self, name, args, dtype):
        """gather along the last dimension by integers that depend on floats."""
        x, index = args[0], args[2] if name == "gather" else None
        if name != "gather" or args[1] % max(len(x.shape), 1) != len(x.shape) - 1 or x.shape[:-1] != index.shape[:-1]:
            raise Outside(f"{name} by integers that depend on floats")
        node = self.g.add("pick", index.count, sources=[x.node, index.node], length=x.shape[-1], picked=index.shape[-1])
        return Sym(node, index.shape, dtype)

    # ---- casts ----

    def op__to_copy(self, x, *rest, dtype=None, **kwargs):
        return self.cast(x, dtype or x.dtype)

    def op_convert_element_type(self, x, dtype):
        return self.cast(x, dtype)

    def cast(self, x, dtype):
        if dtype == torch.bool:
            return (self.truth(x) if x.is_float
                    else self.g.map("int ne", [x, self.g.constant(torch.tensor(0))], torch.bool))
        if dtype.is_floating_point:
            s = self.g.as_float(x)
            return Sym(s.node, s.shape, dtype)
        if x.is_float:
            return self.g.map("to_int", [x], dtype)
        return Sym(x.node, x.shape, dtype)

    # ---- reductions ----

    def total(self, x, dims, keepdim, dtype=None):
        if not x.is_float and not (dtype and dtype.is_floating_point):
            return self.g.reduce("int sum", x, dims, keepdim, dtype or torch.int64)
        x = self.g.as_float(x)
        return self.g.reduce("sum", x, dims, keepdim, x.dtype)

    def op_sum(self, x, dims=None, keepdim=False, *, dtype=None, output_dtype=None):
        return self.total(x, dims, keepdim, dtype)

    def count_of(self, x, dims):
        dims = range(len(x.shape)) if not dims and dims != 0 else [dims] if isinstance(dims, int) else dims
        return math.prod(x.shape[d] for d in dims)

    def op_mean(self, x, dims=None, keepdim=False, *, dtype=None):
        return self.g.float_map("div", self.total(x, dims, keepdim, torch.float32), self.count_of(x, dims),
                                dtype=self.g.as_float(x).dtype)

    def spread(self, x, dims, correction, keepdim):
        n = self.count_of(x, dims)
        mean = self.g.float_map("div", self.total(x, dims, True), n, dtype=x.dtype)
        d = self.g.float_map("sub", x, mean, dtype=x.dtype)
        squares = self.total(self.g.float_map("mul", d, d, dtype=x.dtype), dims, keepdim)
        flat = mean if keepdim else self.g.shaped(mean, squares.shape)
        return (self.g.float_map("div", squares, max(n - (1 if correction is None else correction), 0), dtype=x.dtype),
                flat)

    def op_var(self, x, dims=None, correction=None, keepdim=False, *, unbiased=None, output_dtype=None, **kwargs):
        correction = kwargs.get("correction", correction)
        if isinstance(correction, bool):
            correction = 1 if correction else 0
        return self.spread(x, dims, correction, keepdim)[0]

    def op_var_mean(self, x, dims=None, *rest, correction=None, keepdim=False):
        return self.spread(x, dims, correction, keepdim)

    def op_prod(self, x, dims=None, keepdim=False, *, dtype=None):
        return self.g.reduce("prod", self.g.as_float(x), dims, keepdim, self.g.as_float(x).dtype)

    def op_amax(self, x, dims=None, keepdim=False, **kwargs):
        return self.g.reduce("max", x, dims, keepdim, x.dtype)

    def op_amin(self, x, dims=None, keepdim=False, **kwargs):
        return self.g.reduce("min", x, dims, keepdim, x.dtype)

    def op_any(self, x, dims=None, keepdim=False):
        return self.g.reduce("any", self.truth(x), dims, keepdim, torch.bool)

    def op_all(self, x, dims=None, keepdim=False):
        return self.g.reduce("all", self.truth(x), dims, keepdim, torch.bool)

    def op_argmax(self, x, dim=None, keepdim=False):
        return self.g.reduce("argmax", x, dim, keepdim, torch.int64)

    def op_argmin(self, x, dim=None, keepdim=False):
        return self.g.reduce("argmin", x, dim, keepdim, torch.int64)

    def op_max(self, x, dim=None, keepdim=False):
        value = self.g.reduce("max", x, dim, keepdim, x.dtype)
        return value if dim is None else (value, self.op_argmax(x, dim, keepdim))

    def op_min(self, x, dim=None, keepdim=False):
        value = self.g.reduce("min", x, dim, keepdim, x.dtype)
        return value if dim is None else (value, self.op_argmin(x, dim, keepdim))

    # ---- along one dimension ----

    def op_cumsum(self, x, dim, *, dtype=None):
        return self.g.along("scan", self.g.as_float(x), dim, self.g.as_float(x).dtype, op="sum")

    def op_cumprod(self, x, dim, *, dtype=None):
        return self.g.along("scan", self.g.as_float(x), dim, self.g.as_float(x).dtype, op="prod")

    def op_cummax(self, x, dim):
        return self.g.along("scan", x, dim, x.dtype, op="max"), None

    def op_cummin(self, x, dim):
        return self.g.along("scan", x, dim, x.dtype, op="min"), None

    def op_sort(self, x, dim=-1, descending=False, **kwargs):
        return self.ordered(x, dim, kwargs.get("descending", descending), None)

    def op_topk(self, x, k, dim=-1, largest=True, sorted=True):
        return self.ordered(x, dim, largest, k)

    def ordered(self, x, dim, descending, k):
        order = self.g.along("order", x, dim, torch.int64, descending=bool(descending))
        if not x.shape:
            return x, order
        last = self.g.moved(x, lambda t: t.movedim(dim, -1))
        by = self.g.moved(order, lambda t: t.movedim(dim, -1)[..., :k])
        node = self.g.add("pick", by.count, sources=[last.node, by.node], length=last.shape[-1], picked=by.shape[-1])
        value = Sym(node, by.shape, x.dtype)
        return self.g.moved(value, lambda t: t.movedim(-1, dim)), self.g.moved(by, lambda t: t.movedim(-1, dim))

    # ---- element-wise, in other words ----

    def op_relu(self, x):
        return self.g.float_map("max", x, 0.0, dtype=x.dtype)

    def op_relu6(self, x):
        return self.op_clamp(x, 0.0, 6.0)

    def op_clamp(self, x, low=None, high=None, *, min=None, max=None):
        low, high = min if low is None else low, max if high is None else high
        for bound, op in ((low, "max"), (high, "min")):
            if bound is not None:
                x = self.g.float_map(op, x, bound, dtype=self.g.as_float(x).dtype)
        return x

    def op_clamp_min(self, x, low):
        return self.op_clamp(x, low, None)

    def op_clamp_max(self, x, high):
        return self.op_clamp(x, None, high)

    def op_full_like(self, x, value, **kwargs):
        return self.g.constant(torch.full(x.shape, value, dtype=kwargs.get("dtype") or x.dtype))

    def op_zeros_like(self, x, **kwargs):
        return self.op_full_like(x, 0, **kwargs)

    def op_ones_like(self, x, **kwargs):
        return self.op_full_like(x, 1, **kwargs)

    def op_empty_like(self, x, **kwargs):
        return self.op_full_like(x, 0, **kwargs)

    def op_fill(self, x, value):
        return (self.op_full_like(x, value) if not isinstance(value, (Sym, torch.Tensor))
                else self.g.moved(self.g.of(value, x.dtype), lambda t: t.expand(x.shape)))

    def op_masked_fill(self, x, mask, value):
        return self.call(aten.where.self,
                         (mask, value if isinstance(value, (Sym, torch.Tensor)) else self.g.of(value, x.dtype), x), {})

    def op_scalar_tensor(self, x, **kwargs):
        return x

    def op_linalg_vector_norm(self, x, order=2, dims=None, keepdim=False, *, dtype=None):
        if order != 2:
            raise Outside(f"a norm of order {order}")
        return self.g.float_map("sqrt", self.total(self.g.float_map("mul", x, x, dtype=x.dtype), dims, keepdim),
                                dtype=x.dtype)

    # ---- products ----

    def op_mm(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        return self.g.dot(a, b, 1, m, k, n, (m, n), a.dtype)

    def op_bmm(self, a, b):
        (batch, m, k), n = a.shape, b.shape[2]
        return self.g.dot(a, b, batch, m, k, n, (batch, m, n), a.dtype)

    def op_dot(self, a, b):
        return self.g.dot(a, b, 1, 1, a.count, 1, (), a.dtype)

    def op_mv(self, a, b):
        return self.g.dot(a, b, 1, a.shape[0], a.shape[1], 1, (a.shape[0],), a.dtype)

    # ---- windows ----

    def windows(self, places, kernel, stride, padding, dilation):
        """Places of an image (..., sizes) as (..., outputs, window); -1 outside. padding: (before,
        after) of each dimension."""
        n = len(kernel)
        flat = [p for pair in reversed(padding) for p in pair]
        t = torch.nn.functional.pad(places, flat, value=-1) if any(flat) else places.contiguous()
        t = t.contiguous()
        lead, sizes = t.shape[:-n], t.shape[-n:]
        out = [(sizes[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(n)]
        step = t.stride()[-n:]
        return (t.as_strided(list(lead) + out + list(kernel), list(t.stride()[:-n]) + [step[d] * stride[d]
            for d in range(n)] + [step[d] * dilation[d] for d in range(n)]), out)

    def op_convolution(self, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
        g, n = self.g, len(stride)
        places = torch.arange(x.count).reshape(x.shape)
        weights = torch.arange(w.count).reshape(w.shape)
        kernel = list(w.shape[2:])
        if transposed:
            # zeros between the elements, and the mirrored kernel with its channels exchanged in
            # each group
            spread = torch.full(list(x.shape[:2]) + [(s - 1) * stride[d] + 1 for d, s in enumerate(x.shape[2:])], -1)
            spread[(slice(None), slice(None)) + tuple(slice(None, None, stride[d]) for d in range(n))] = places
            per = w.shape[1]
            weights = weights.reshape([groups, w.shape[0] // groups, per] + kernel).transpose(1,
                2).reshape([groups * per, w.shape[0] // groups] + kernel)
            weights = weights.flip(list(range(2, 2 + n)))
            pads = [(dilation[d] * (kernel[d] - 1) - padding[d],
                     dilation[d] * (kernel[d] - 1) - padding[d] + output_padding[d]) for d in range(n)]
            places, stride = spread, [1] * n
            for d, (before, after) in enumerate(pads):     # a negative pad cuts
                cut = [max(-before, 0), max(-after, 0)]
                places = places.narrow(2 + d, cut[0], places.shape[2 + d] - sum(cut))
            pads = [(max(a, 0), max(b, 0)) for a, b in pads]
        else:
            pads = [(p, p) for p in padding]
        batch, channels, made = x.shape[0], x.shape[1], weights.shape[0]
        table, out = self.windows(places, kernel, stride, pads, dilation)
        # (batch, groups, channels of one, outputs, window) -> (batch, groups, channels x window,
        # outputs)
        per, size, positions = channels // groups, math.prod(kernel), math.prod(out)
        table = table.reshape(batch, groups, per, positions, size).permute(0, 1, 2, 4, 3).reshape(batch * groups,
            per * size, positions)
        b = g.take([g.as_float(x)], table, x.dtype, g.number(0.0, 24))
        rows = weights.reshape(groups, made // groups, per * size).expand(batch, groups, made // groups, per * size)
        a = g.take([g.as_float(w)], rows.reshape(batch * groups, made // groups, per * size), w.dtype)
        result = g.dot(a, b, batch * groups, made // groups, per * size, positions, [batch, made] + out, x.dtype)
        if bias is not None:
            result = g.map(
                "add", [result, g.moved(bias, lambda t: t.reshape([1, made] + [1] * n).expand(result.shape))], x.dtype)
        return result

    def pooled(self, x, kernel, stride, padding, dilation, ceil_mode, n):
        kernel = list(kernel) * n if len(kernel) == 1 else list(kernel)
        stride = kernel if not stride else list(stride) * n if len(stride) == 1 else list(stride)
        padding = list(padding) * n if len(padding) == 1 else list(padding)
        dilation = list(dilation) * n if len(dilation) == 1 else list(dilation)
        pads = [(p, p) for p in padding]
        if ceil_mode:      # a last window that starts inside
            for d in range(n):
                size, reach = x.shape[len(x.shape) - n + d], dilation[d] * (kernel[d] - 1) + 1
                full = -(-(size + 2 * padding[d] - reach) // stride[d]) + 1
                if (full - 1) * stride[d] >= size + padding[d]:
                    full -= 1
                pads[d] = (padding[d], max((full - 1) * stride[d] + reach - size - padding[d], padding[d]))
        table, out = self.windows(torch.arange(x.count).reshape(x.shape), kernel, stride, pads, dilation)
        return table.reshape(list(x.shape[:-n]) + out + [-1]), list(x.shape[:-n]) + out, pads, (kernel, stride, padding)

    def max_pool(self, n, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        table, shape, _, _ = self.pooled(x, kernel, stride, padding, dilation, ceil_mode, n)
        w = self.g.take([x], table, x.dtype, self.g.number(-math.inf, 24))
        value = self.g.reduce("max", w, [-1], False, x.dtype)
        # positions count in the image, not in the window
        best = self.g.reduce("argmax", w, [-1], False, torch.int64)
        size = math.prod(x.shape[-n:])
        inside = torch.where(table < 0, table, table % size)
        places = self.g.constant(inside)
        node = self.g.add("pick", best.count, sources=[places.node, best.node], length=table.shape[-1], picked=1)
        return value, Sym(node, shape, torch.int64)

    def op_max_pool2d_with_indices(self, x, *args, **kwargs):
        return self.max_pool(2, x, *args, **kwargs)

    def op_max_pool3d_with_indices(self, x, *args, **kwargs):
        return self.max_pool(3, x, *args, **kwargs)

    def avg_pool(self, n, x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True,
                 divisor_override=None):
        table, shape, pads, (kernel, stride, padding) = self.pooled(x, kernel, stride, padding, (1,), ceil_mode, n)
        total = self.g.reduce("sum", self.g.take([x], table, x.dtype, self.g.number(0.0, 24)), [-1], False, x.dtype)
        if divisor_override:
            return self.g.float_map("div", total, divisor_override, dtype=x.dtype)
        # what a window is divided by: elements of the image, or of the padding that was asked for
        # too
        asked = torch.nn.functional.pad(torch.zeros(x.shape, dtype=torch.int64), [p for q in reversed(padding)
            for p in (q, q)] if count_include_pad else [0] * 2 * n, value=0)
        rest = [(pads[d][0] - (padding[d] if count_include_pad else 0),
                 pads[d][1] - (padding[d] if count_include_pad else 0)) for d in range(n)]
        counted, _ = self.windows(asked, kernel, stride, rest, [1] * n)
        divisor = (counted.reshape(shape + [-1]) >= 0).sum(-1)
        return self.g.float_map("div", total, self.g.constant(divisor), dtype=x.dtype)

    def op_avg_pool1d(self, x, *args, **kwargs):
        return self.avg_pool(1, x, *args, **kwargs)

    def op_avg_pool2d(self, x, *args, **kwargs):
        return self.avg_pool(2, x, *args, **kwargs)

    def op_avg_pool3d(self, x, *args, **kwargs):
        return self.avg_pool(3, x, *args, **kwargs)

    # ---- scattered sums ----

    def scattered(self, base, places, source):
        source = self.g.widened(self.g.as_float(source), places.shape)
        flat = places.reshape(-1).to(torch.int64)
        node = self.g.add("scatter", base.count, sources=[self.g.as_float(base).node, source.node],
                          at=self.place_of(flat), scattered=flat.numel())
        return Sym(node, base.shape, base.dtype)

    def place_of(self, t):
        return self.g.place(t)

    def op_index_put(self, base, indices, values, accumulate=False):
        if not accumulate:
            return self.move(aten.index_put.default, "index_put", (base, indices, values), {})
        if any(isinstance(i, Sym) for i in indices if i is not None):
            raise Outside("index_put by integers that depend on floats")
        base = self.g.of(base, values.dtype)
        places = torch.arange(base.count).reshape(base.shape)[tuple(slice(None) if i is None else i for i in indices)]
        return self.scattered(base, places, values)

    def op_scatter_add(self, base, dim, index, source):
        if isinstance(index, Sym):
            raise Outside("scatter_add by integers that depend on floats")
        source = (self.g.moved(source, lambda t: t[tuple(slice(n) for n in index.shape)])
                  if source.shape != tuple(index.shape) else source)
        base = self.g.of(base, source.dtype)
        return self.scattered(base, torch.arange(base.count).reshape(base.shape).gather(dim, index), source)

    def op_scatter_reduce(self, base, dim, index, source, reduce, *, include_self=True):
        if reduce != "sum" or not include_self:
            raise Outside(f"scatter_reduce by {reduce}")
        return self.op_scatter_add(base, dim, index, source)
