"""The steps of a reference over exact values, as src/prove evaluates them: a graph that is built by
adding them (docs/prove.md lists the kinds)."""
import math

import torch

from oracle_pack import Pack

TABLE_BYTES_MAX = 1 << 30
NODES_MAX = 60000


class Outside(Exception):
    """An operator that no step stands for."""


def bits_of(dtype):
    """The significand that constants beside a tensor of this type are taken to have: narrow floats
    are computed in fp32."""
    return 53 if dtype == torch.float64 else 24


class Sym:
    """A tensor of exact values (or of integers that depend on some): node `node` in row-major
    order."""

    def __init__(self, node, shape, dtype, known=None):
        self.node, self.shape, self.dtype = node, tuple(shape), dtype
        self.count = math.prod(self.shape)
        # its values, where they depend on no input: integers that are made of them are concrete
        self.known = known

    @property
    def is_float(self):
        return self.dtype.is_floating_point


class Graph:
    def __init__(self):
        self.nodes, self.pack = [], Pack("tables", TABLE_BYTES_MAX)

    def add(self, kind, count, **fields):
        if len(self.nodes) >= NODES_MAX:
            raise Outside(f"more than {NODES_MAX} steps")
        self.nodes.append({"kind": kind, "count": count, **fields})
        return len(self.nodes) - 1

    def place(self, t):
        return self.pack.add(t.contiguous())[0]

    # ---- leaves ----

    def number(self, value, bits):
        value = float(value)
        return self.add("number", 1, value=value if math.isfinite(value) else str(value), bits=bits)

    def constant(self, t):
        """A tensor that is known: integers as they are, floats as constants of their type."""
        if t.dtype.is_complex:
            raise Outside("complex numbers")
        if t.dtype.is_floating_point:
            node = self.add("floats", t.numel(), at=self.place(t.double()), bits=bits_of(t.dtype))
        else:
            node = self.add("ints", t.numel(), at=self.place(t.to(torch.int64)))
        return Sym(node, t.shape, t.dtype, t)

    def of(self, value, dtype):
        """A node of any operand of an element-wise step."""
        if isinstance(value, Sym):
            return value
        if isinstance(value, torch.Tensor):
            return self.constant(value)
        if isinstance(value, (bool, int, float)):
            if dtype.is_floating_point or isinstance(value, float):
                return Sym(self.number(value, bits_of(dtype)), (), dtype if dtype.is_floating_point else torch.float32)
            return self.constant(torch.tensor(int(value)))
        raise Outside(f"an operand of type {type(value).__name__}")

    # ---- steps ----

    def take(self, sources, table, dtype, fill=None):
        """out[i] = the table[i]-th of all sources' elements in a row; fill where it is negative."""
        total = sum(s.count for s in sources)
        wide = total >= 1 << 31
        flat = table.reshape(-1).to(torch.int64 if wide else torch.int32)
        node = self.add("take", flat.numel(), sources=[s.node for s in sources], at=self.place(flat),
                        width=8 if wide else 4, fill=-1 if fill is None else fill)
        return Sym(node, table.shape, dtype)

    def moved(self, s, function):
        """What a function that only moves elements makes of s."""
        return self.take([s], function(torch.arange(s.count).reshape(s.shape)), s.dtype)

    def shaped(self, s, shape):
        return Sym(s.node, shape, s.dtype)

    def widened(self, s, shape):
        if s.count == 1 or s.shape == tuple(shape):
            return s
        return self.moved(s, lambda t: t.expand(shape))

    def map(self, op, operands, dtype, shape=None):
        shape = torch.broadcast_shapes(*[o.shape for o in operands]) if shape is None else shape
        operands = [self.widened(o, shape) for o in operands]
        if dtype.is_floating_point and op not in ("to_float", "where"):
            operands = [self.as_float(o) for o in operands]
        count = math.prod(shape)
        return Sym(self.add("map", count, op=op, sources=[o.node for o in operands]), shape, dtype)

    def as_float(self, s):
        if s.is_float:
            return s
        return Sym(self.add("map", s.count, op="to_float", sources=[s.node]), s.shape, torch.float32)

    def float_map(self, op, *operands, dtype):
        return self.map(op, [self.as_float(self.of(o, dtype)) for o in operands], dtype)

    def rows(self, s, dims):
        """s with the dimensions dims last and joined: (outer, length)."""
        dims = sorted(d % max(len(s.shape), 1) for d in dims) if s.shape else []
        rest = [d for d in range(len(s.shape)) if d not in dims]
        length = math.prod(s.shape[d] for d in dims)
        if rest + dims != list(range(len(s.shape))):
            s = self.moved(s, lambda t: t.permute(rest + dims))
        return s, [d for d in rest], length

    def reduce(self, op, s, dims, keepdim, dtype):
        if dims is None or (isinstance(dims, (list, tuple)) and not dims):
            dims = list(range(len(s.shape)))
        dims = [dims] if isinstance(dims, int) else list(dims)
        wanted = {d % max(len(s.shape), 1) for d in dims} if s.shape else set()
        shape = [1 if d in wanted else n for d, n in enumerate(s.shape) if keepdim or d not in wanted]
        t, _, length = self.rows(s, dims)
        count = math.prod(shape)
        return Sym(self.add("reduce", count, op=op, sources=[t.node], length=length), shape, dtype)

    def along(self, kind, s, dim, dtype, **fields):
        """A step along one dimension that keeps the shape."""
        if not s.shape:
            return self.shaped(s, s.shape)
        t, rest, length = self.rows(s, [dim])
        order = rest + [dim % len(s.shape)]
        node = self.add(kind, s.count, sources=[t.node], length=length, **fields)
        out = Sym(node, [s.shape[d] for d in order], dtype)
        back = [order.index(d) for d in range(len(order))]
        return out if back == list(range(len(back))) else self.moved(out, lambda v: v.permute(back))

    def dot(self, a, b, batch, m, k, n, shape, dtype):
        return Sym(self.add("dot", batch * m * n, sources=[self.as_float(a).node, self.as_float(b).node], batch=batch,
                            m=m, k=k, n=n), shape, dtype)
