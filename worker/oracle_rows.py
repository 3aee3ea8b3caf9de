"""Lists of whole numbers in a task's text that belong to a size: lengths whose sum is one, offsets
that end with one, lengths of which the longest is one.

At other sizes the text of such a list stays what it was, and a reference often does not mind: a
slice of a tensor ends where the tensor ends, and a mask has no place beyond it. A kernel reads
there what such a list says. So a list keeps what it is to a size, or a set of sizes that
contradicts it is none: candidates are told inputs and arguments, and cannot know what the
reference makes of numbers that do not fit each other.

A list that only get_inputs uses is made anew, since a candidate is given what comes of it. One that
the model has in its own text stands in a candidate's text as well, and the size has to stay."""
import ast
import itertools

import torch
from torch.overrides import TorchFunctionMode

TRIES = 16
PARTS_MAX = 1 << 14
LEAST = 8               # a size below is a list's sum or end by accident: axes, kernel sizes
# Functions whose lists of numbers are shapes and axes.
OF_SHAPES = {"randn", "rand", "randint", "zeros", "ones", "empty", "full", "reshape", "view", "expand", "permute",
             "repeat", "tile", "normal", "broadcast_to", "unflatten", "flatten", "sum", "mean", "amax", "amin", "flip",
             "roll", "transpose", "movedim", "pad", "var", "std", "norm", "logsumexp", "softmax", "Size"}


class Contradiction(ValueError):
    """Sizes that a list of the text does not allow."""


class Number:
    """A whole number of the text, as oracle_size.rewritten takes it."""

    def __init__(self, node):
        self.node, self.value = node, node.value


class Row:
    """One list: its numbers; whether a candidate is given what comes of them."""

    def __init__(self, nodes, is_free):
        self.numbers, self.is_free = [Number(n) for n in nodes], is_free

    def values(self):
        return [n.value for n in self.numbers]


def is_whole(node):
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0


def rows_in(node, is_free):
    """The rows of a literal of lists, [] where it is none of whole numbers alone. Pairs one behind
    the other (where parts begin and end) are one row."""
    if not isinstance(node, (ast.List, ast.Tuple)) or not node.elts:
        return []
    if all(map(is_whole, node.elts)):
        return [Row(node.elts, is_free)]
    parts = [rows_in(e, is_free) for e in node.elts]
    if not all(parts):
        return []
    rows = list(itertools.chain(*parts))
    if all(len(r.numbers) <= 2 for r in rows):
        return [Row([n.node for r in rows for n in r.numbers], is_free)]
    return rows


def rows_below(node, is_free):
    """All rows below a node, in the order of the text. Arguments that are a shape, and indices, are
    none."""
    found = rows_in(node, is_free)
    if found:
        return found
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in OF_SHAPES:
            return []
    if isinstance(node, ast.Assign) and any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets):
        return []      # several names at once
    if isinstance(node, ast.Subscript):
        return rows_below(node.value, is_free)
    return [r for child in ast.iter_child_nodes(node) for r in rows_below(child, is_free)]


def names_of_model(tree):
    """Names that the text of a class reads."""
    return {n.id for c in tree.body if isinstance(c, ast.ClassDef) for n in ast.walk(c) if isinstance(n, ast.Name)}


def rows_of(source):
    """All rows of a text. Of a class only what a name or a loop has, or what is made a tensor:
    other lists are arguments of layers."""
    tree, rows = ast.parse(source), []
    of_model = names_of_model(tree)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            names = {t.id for t in statement.targets if isinstance(t, ast.Name)}
            rows += rows_below(statement, not names & of_model)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "get_inputs":
            rows += rows_below(statement, True)
        elif isinstance(statement, ast.ClassDef):
            for node in ast.walk(statement):
                if isinstance(node, (ast.Assign, ast.For)):
                    rows += rows_in(node.value if isinstance(node, ast.Assign) else node.iter, False)
                elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("tensor", "as_tensor", "split"):
                    rows += [r for a in node.args for r in rows_in(a, False)]
    return rows


def highs_of(source):
    """Numbers that get_inputs asks torch.randint for, with the lowest beside each: [(number,
    lowest)]."""
    found = []
    for function in ast.parse(source).body:
        is_maker = isinstance(function, ast.FunctionDef) and function.name == "get_inputs"
        for node in ast.walk(function) if is_maker else ():
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "randint":
                bounds = [a for a in node.args if not isinstance(a, (ast.Tuple, ast.List))][:2]
                low = bounds[0].value if len(bounds) == 2 and is_whole(bounds[0]) else 0
                high = next((k.value for k in node.keywords if k.arg == "high"), bounds[-1] if bounds else None)
                found += [(Number(high), low)] if is_whole(high) else []
    return found


# ---- what a row is to a size ----

def are_offsets(values):
    return len(values) > 1 and values[0] == 0 and sorted(values) == values and values[-1] > 0


def lengths_of(values):
    return [b - a for a, b in zip(values, values[1:])] if are_offsets(values) else values


def size_of(values):
    """The size that a row's parts make together; 0 where it is too small to say anything."""
    total = sum(lengths_of(values))
    return total if len(lengths_of(values)) > 1 and total >= LEAST else 0


def longest_of(values):
    return max(values) if max(values) >= LEAST and not are_offsets(values) else 0


def parts(lengths, total, most):
    """Lengths in about these proportions, none above `most`; what is empty stays so."""
    whole = sum(lengths)
    out = [min(max(v * total // whole, int(v > 0)), most) for v in lengths]
    spare = total - sum(out)
    while spare:
        able = [i for i, v in enumerate(out) if lengths[i] and (v < most if spare > 0 else v > 1)]
        if not able:
            raise Contradiction(f"{len(lengths)} parts of {total}, none above {most}")
        at = (min if spare > 0 else max)(able, key=lambda i: out[i])
        out[at] += 1 if spare > 0 else -1
        spare -= 1 if spare > 0 else -1
    return out


def scaled(values, longest):
    """The same order, with another largest number; what differs goes on to differ."""
    out = [v * longest // max(values) for v in values]
    if len(set(out)) < len(set(values)):
        raise Contradiction(f"{len(set(values))} numbers up to {longest}")
    return out


def kept(old, now, dims, plain, is_free):
    """What a row has to be where sizes have changed: dims and plain numbers are pairs of one before
    and after. now: what it is there."""
    for of, makes in ((size_of, whole_again), (longest_of, scaled_again)):
        ties = {b for a, b in dims if a == of(old)}
        if not ties:
            continue
        if of is size_of and any(a == len(lengths_of(old)) != b for a, b in dims):
            raise Contradiction(f"{len(lengths_of(old))} parts beside another number of them")
        if of(now) in ties and (now != old or len(ties) == 1):
            return now
        if len(ties) > 1 or not is_free:
            raise Contradiction(f"a list of {of(old)} beside {sorted(ties)}")
        return makes(old, now, ties.pop(), plain)
    return lowered(old, now, dims) if is_free else now


def whole_again(old, now, total, plain):
    """Other parts of another whole, none longer than what stands beside them as the longest, where
    that leaves room."""
    before = lengths_of(old)
    shares = lengths_of(now if are_offsets(now) == are_offsets(old) and size_of(now) else old)
    most = min((b for a, b in plain if a == max(before)), default=total)
    lengths = parts(shares, total, most if most * sum(v > 0 for v in before) >= total else total)
    return in_form(old, lengths)


def lower_high(number, low, dims):
    """A bound of drawn numbers that is a size, or one more than it: no more than the smaller size
    allows."""
    least = min((b + number.value - a for a, b in dims if a in (number.value, number.value - 1) and b < a),
                default=number.value)
    return least if least > low + 1 and number.value >= LEAST else number.value


def scaled_again(old, now, longest, plain):
    return scaled(old, longest)


def lowered(old, now, dims):
    """Numbers below a size stay below it (a length of a cache, an index)."""
    least = min((b for a, b in dims if a > max(old)), default=None)
    if least is None or max(now) < least or max(old) < LEAST or least < 2:
        return now
    try:
        return scaled(old, least - 1)
    except Contradiction:
        return now


def in_form(old, lengths):
    return list(itertools.accumulate(lengths, initial=0)) if are_offsets(old) else list(lengths)


# ---- texts ----

def scalars(text, value):
    """Where a text has this number by itself: as a constant of the module, or as an argument."""
    found = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign):
            found += [statement.value]
        elif isinstance(statement, ast.FunctionDef) and statement.name == "get_inputs":
            for node in ast.walk(statement):
                if isinstance(node, ast.Assign):
                    found.append(node.value)
                elif isinstance(node, ast.Return) and isinstance(node.value, (ast.List, ast.Tuple)):
                    found += node.value.elts
    return [Number(n) for n in found if is_whole(n) and n.value == value]


def pairs(before, after):
    """[(one before, the same after)] of two lists of dimensions; None where they are not alike."""
    if len(before) != len(after) or any(len(a) != len(b) for a, b in zip(before, after)):
        return None
    return [p for a, b in zip(before, after) for p in zip(a, b)]


def changes(source, text, before, after, is_made=False):
    """(numbers of the text, their values) with which its rows fit its sizes. before, after:
    (shapes of the inputs, plain whole numbers among them) of both. is_made: the text has been
    changed so already. Raises Contradiction."""
    dims, plain = pairs(before[0], after[0]), pairs([before[1]], [after[1]])
    if dims is None or plain is None:
        return [], []
    # Lists that were the same parts are so again, as offsets and as lengths.
    numbers, values, made, longest = [], [], {}, {}
    for was, row in zip(rows_of(source), rows_of(text)):
        old = was.values()
        key = tuple(lengths_of(old))
        now = in_form(old, made[key]) if key in made and row.is_free else row.values()
        wanted = kept(old, now, dims, plain, row.is_free)
        made.setdefault(key, lengths_of(wanted))
        longest[max(key)] = max(lengths_of(wanted))
        numbers += row.numbers
        values += wanted
    for number, low in highs_of(text):
        numbers.append(number)
        values.append(lower_high(number, low, dims))
    # The longest of them, where a number beside them says it.
    for a, b in plain:
        if longest.get(a, 0) > b:
            said = scalars(text, b)
            if is_made and len(said) != 1:
                raise Contradiction(f"parts of {longest[a]}, and {b} is the longest")
            numbers += said[:1]
            values += [longest[a]] * len(said[:1])
    return numbers, values


def ties(source, shapes):
    """Sizes to which a row belongs, and those of them that have to stay."""
    dims = {d for shape in shapes for d in shape}
    tied, held = set(), set()
    for row in rows_of(source):
        mine = {of(row.values()) for of in (size_of, longest_of)} & dims
        tied |= mine
        held |= set() if row.is_free else mine
        # As many parts as there are stay.
        held |= {len(lengths_of(row.values()))} if size_of(row.values()) in mine else set()
    return tied, held


# ---- inputs ----

def is_whole_numbers(x):
    return not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool)


def parts_of(x, y, dims):
    """Whether a whole-number input, as two seeds make it, says which parts of another begin where,
    or how long they are: other numbers of its range would not fit together."""
    if x.dim() != 1 or not 2 <= x.numel() <= PARTS_MAX or not is_whole_numbers(x):
        return False
    first, second = x.tolist(), y.tolist()
    if min(first + second) < 0 or size_of(first) not in dims or size_of(second) != size_of(first):
        return False
    return are_offsets(first) == are_offsets(second)


def settle_parts(domains, first, second, numbers):
    """Marks the domains of inputs that are lengths or offsets of another's parts. numbers: the
    plain ones beside them."""
    dims = {d for t in first for d in t.shape}
    mine = [i for i, d in enumerate(domains) if parts_of(first[i], second[i], dims)]
    for i in mine:
        domains[i].is_parts, domains[i].has_partner = True, len(mine) > 1
        longest = max(lengths_of(first[i].tolist()))
        domains[i].longest = longest if longest in numbers else None


def other_parts(x, most, generator):
    """The same whole in other parts, none longer than `most` (None: as long as may be), with empty
    ones where there were such."""
    values = x.tolist()
    lengths = lengths_of(values)
    for _ in range(TRIES):
        cuts = torch.randint(0, sum(lengths) + 1, (len(lengths) - 1,), generator=generator).sort().values.tolist()
        ends = [0, *cuts, sum(lengths)]
        other = lengths_of(ends)
        if (min(other) > 0 or min(lengths) == 0) and max(other) <= (most or max(other)):
            break
    else:
        other = [lengths[i] for i in torch.randperm(len(lengths), generator=generator).tolist()]
    out = list(itertools.accumulate(other, initial=0)) if are_offsets(values) else other
    return torch.tensor(out, dtype=x.dtype)


# ---- slices ----

class Cut(TorchFunctionMode):
    """Whether a forward takes a slice that ends behind its tensor's end, by a whole number that it
    read of a tensor: then what the inputs say is not there, and nobody is told so."""

    READS = {"__int__", "__index__", "item", "tolist"}

    def __init__(self):
        super().__init__()
        self.read, self.is_cut = set(), False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        out = func(*args, **(kwargs or {}))
        if name in self.READS:
            self.keep(out)
        elif name in ("__getitem__", "__setitem__") and isinstance(args[0], torch.Tensor):
            self.look(args[0], args[1] if isinstance(args[1], tuple) else (args[1],))
        return out

    def keep(self, value):
        for v in value if isinstance(value, list) else [value]:
            if isinstance(v, list):
                self.keep(v)
            elif type(v) is int:
                self.read.add(v)

    def look(self, x, index):
        """Dimensions from the left; behind what stands for several, nothing is known."""
        dim = 0
        for part in index:
            if part is None:
                continue
            if not isinstance(part, (int, slice)) or dim >= x.dim():
                return
            if isinstance(part, slice) and part.stop is not None:
                first, last = int(part.start or 0), int(part.stop)
                self.is_cut |= last > x.shape[dim] and (last in self.read or last - first in self.read)
            dim += 1
