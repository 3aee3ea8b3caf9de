"""Hidden inputs: other kinds of values, other sizes and other strides than the task's own. Other
parameters are oracle_state.py.

A candidate that is right only where the task's own get_inputs() happens to look is caught by these
(docs/verifier.md). What an input may be is read off its stock values under two seeds (`Domain`):
rows that sum to one stay probabilities, the zeros and the symmetry of a structured matrix stay, so
do equal halves of rows, integers stay in their range. An input that no seed changes (an all-ones
mask, a zero state, arange) is a default and no domain: one kind of trial varies those, as far as
the reference allows."""
import ast
import math
import random
import re

import torch

import oracle_pack
import oracle_rows
import oracle_size

# this many exact zeros in a stock float tensor are structure (triangular, diagonal, masked), not
# chance
ZERO_FRACTION = 0.1
ADDED_BELOW = -1e4      # what a mask that is added keeps out is at most this
VARIANT_ATTEMPTS = 9
VARIANT_CONSTANT_MAX = 1 << 20


# ---- domains ----

class Domain:
    """What two draws of one stock input show about it, and what the task asked a generator of whole
    numbers for: (lowest, highest), or None."""

    def __init__(self, x, y, asked=None, named=()):
        self.is_fixed = x.numel() > 0 and torch.equal(x, y)
        self.kind = kind_of(x)
        self.values = "other"
        self.asked = asked
        # Whole numbers of the task's text that such an input may be: a padding token, what is to be
        # ignored.
        self.named = [v for v in named if asked and asked[0] <= v <= asked[1]]
        self.is_other = False      # another input of floats comes before it
        self.is_parts = False      # lengths or offsets of another input's parts (oracle_rows.py)
        self.has_partner = False   # and another one is so too
        self.longest = None        # a number beside them that no part is longer than
        if x.numel() and not x.is_complex():
            v = x.detach().float() if x.is_floating_point() else x.detach()
            self.range = asked or (v.min().item(), v.max().item())
            distinct = set(torch.unique(v.flatten()[:4096]).tolist())
            self.values = ("zeros" if distinct == {0} else "mask" if distinct <= {0, 1} else "signs"
                           if distinct <= {-1, 1} else "additive" if is_additive(distinct) else "other")


def whole_numbers_of(source):
    """Whole numbers that a text names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            node = ast.Constant(-node.operand.value) if type(node.operand.value) is int else node
        if isinstance(node, ast.Constant) and type(node.value) is int:
            found.add(node.value)
    return sorted(found)


def is_additive(distinct):
    """Whether these are a mask's that is added to logits: nothing, or so far below that an
    exponential of it vanishes."""
    return 0 in distinct and len(distinct) == 2 and min(distinct) <= ADDED_BELOW


def kind_of(x):
    """'keep', 'probability', 'log-probability' or 'free'. What is no finite number (scores of -inf,
    a NaN where nothing was measured) stays where it is, and says nothing of the numbers beside
    it."""
    if not x.is_floating_point() or x.numel() == 0:
        return "keep"
    v = x.detach().float()
    if not torch.isfinite(v).all():
        # Logarithms of probabilities, some of which are 0, have to stay together.
        is_log = x.dim() > 0 and not v.isnan().any() and ((v.exp().sum(-1) - 1).abs() < 1e-3).all()
        v = v[torch.isfinite(v)]
        return "keep" if is_log or v.numel() == 0 else kind_of(v)
    distinct = torch.unique(v.flatten()[:4096])
    if distinct.numel() <= 2 and v.numel() > 2 and set(distinct.tolist()) <= {-1.0, 0.0, 1.0}:
        return "keep"
    if x.dim() > 0 and x.shape[-1] > 1 and (v >= 0).all() and ((v.sum(-1) - 1).abs() < 1e-3).all():
        return "probability"
    if x.dim() > 0 and x.shape[-1] > 1 and (v <= 0).all() and ((v.exp().sum(-1) - 1).abs() < 1e-3).all():
        return "log-probability"
    return "free"


# ---- kinds of values ----

def normal(x, generator):
    return torch.randn(x.shape, generator=generator, dtype=torch.float32)


def heavy_tail(x, generator):
    """Student t with 3 degrees of freedom: mostly small, some values beyond 10, clipped at 50 so
    that fp16 squares stay finite; the largest is the last."""
    chi = sum(torch.randn(x.shape, generator=generator) ** 2 for _ in range(3)) / 3
    return extreme_at((normal(x, generator) / chi.clamp_min(1e-3).sqrt()).clamp(-50, 50), -1)


def extreme_at(values, place):
    """The element of the largest magnitude stands at one end of all, where a reduction over
    everything must not miss it."""
    if values.dim() == 0 or values.numel() < 2:
        return values
    flat = values.flatten().clone()
    at = flat.abs().argmax()
    flat[place], flat[at] = flat[at].clone(), flat[place].clone()
    return flat.reshape(values.shape)


def rows(x, generator, ties):
    """Rows of zeros of both signs, with one element alone, of equal elements, of two signs, and
    ordinary ones between: what a norm divides by, what a maximum must not take from masked lanes,
    where ties and empty sums are. Two inputs meet in all combinations, since each draws its own.
    Without ties, for references that return positions: rows of very different sizes."""
    v = normal(x, generator)
    if x.dim() == 0 or x.numel() == 0:
        return v
    flat = v.reshape(-1, x.shape[-1])
    # Dealt, not thrown: even few rows have each kind, and lone elements of both signs at both ends,
    # which loops and masks miss.
    deck = torch.randperm(flat.shape[0], generator=generator)[:, None] + torch.randint(0, 30, (1,), generator=generator)
    what, where, sign = deck % 5, deck // 5 % 3, deck // 15 % 2
    if not ties:
        return (flat * 10.0 ** (what - 3)).reshape(x.shape)
    place = torch.randint(0, flat.shape[1], (flat.shape[0], 1), generator=generator)
    place = torch.where(where == 0, 0, torch.where(where == 1, flat.shape[1] - 1, place))
    first = (flat[:, :1].clamp(-2, 2) * 4).round() / 4
    size = first.abs().clamp_min(0.25)
    lone = torch.zeros_like(flat).scatter_(1, place, torch.where(sign == 0, 1.0, -1.0) * size)
    # Sums of equal elements of few digits are exact in every order: such rows without variance show
    # no rounding. Of most of those rows they are not, since a variance that comes out below zero
    # there is nobody's rounding.
    number = (what == 2).cumsum(0)
    is_exact = torch.where(number[-1] > 2, number == 1, sign == 0)
    equal = torch.where(is_exact, first, flat[:, :1])
    shape = shapes_dealt(what == 4, deck // 5 % SHAPES)
    flat = torch.where(what == 4, in_shape(flat, shape), flat)
    zeros = torch.zeros_like(flat).copysign(flat)
    for kind, value in ((0, zeros), (1, lone), (2, equal.expand_as(flat)), (3, flat.sign() * size)):
        flat = torch.where(what == kind, value, flat)
    again = repeated(what == 4, shape)
    return torch.where(again, flat.roll(1, 0), flat).reshape(x.shape)


def repeated(chosen, shape):
    """Rows that are to be the one before once more: those behind a chosen one in one of the last
    shapes. Among ten rows or more there is one."""
    def behind(rows):
        found = rows.roll(1, 0) & ~chosen
        found[0] = False
        return found

    again = behind(chosen & (shape > TINY_SHAPE))
    if chosen.shape[0] >= 10 and not again.any():
        able = behind(chosen & (shape != TINY_SHAPE))
        again = able & (able.cumsum(0) == 1)
    return again


SHAPES = 8              # of in_shape, with the rows that stay
TINY_SHAPE = 5          # next to nothing
NEEDED_SHAPES = (TINY_SHAPE, 6)  # and what a rounding chooses between: nothing else shows these


def shapes_dealt(chosen, number):
    """The shape of each chosen row, among which the needed ones are, where there are so many."""
    number, rows = number.clone(), chosen[:, 0].nonzero()[:, 0]
    missing = [s for s in NEEDED_SHAPES if not (number[rows] == s).any()]
    spare = [r for r in rows.tolist() if int(number[r, 0]) not in NEEDED_SHAPES]
    for row, shape in zip(spare, missing):
        number[row] = shape
    return number


def in_shape(flat, number):
    """Ordinary rows in the shapes that data have of themselves and draws never: in order, of signs
    that take turns, of whole numbers, half of zeros as behind a relu, next to nothing, of whole
    numbers and halves of a fixed point (which rounding has to choose between); those that are left
    stay. Next to nothing only where other rows are not: an output that is nothing else is compared
    by its own size, which exp(x) - 1 has no digits for."""
    turns = torch.arange(flat.shape[1]) % 2 * 2.0 - 1
    tiny = flat * 2.0 ** -30 if flat.shape[0] > 2 else flat
    shapes = (flat.sort(1).values, flat.sort(1, descending=True).values, flat.abs() * turns, (flat * 4).round(),
              flat.clamp_min(0), tiny, (flat * 32).round() / 32)
    for i, values in enumerate(shapes):
        flat = torch.where(number == i, values, flat)
    return flat


def negative(x, generator, deep):
    """All negative. Deep: in every third row so far below zero that exp of it is nothing, and
    spread as widely, so that nothing cancels."""
    v = normal(x, generator).abs()
    if not deep or x.dim() == 0 or x.numel() == 0:
        return -v - 0.05
    number = torch.arange(v[..., 0].numel()).reshape(v.shape[:-1])[..., None]
    return torch.where(number % 3 == 2, -40 * v - 120, -v - 0.05)


def near_one(x, generator):
    """Magnitudes around one: products and powers of many of them neither vanish nor overflow."""
    return torch.exp(0.02 * normal(x, generator)) * torch.where(torch.rand(x.shape, generator=generator) < 0.5, -1.0,
                                                                1.0)


def edge(x, generator):
    """NaN, infinities and denormals among ordinary values."""
    v, which = normal(x, generator), torch.randint(0, 64, x.shape, generator=generator)
    for number, value in ((0, math.nan), (1, math.inf), (2, -math.inf), (3, 1e-40), (4, -0.0)):
        v = torch.where(which == number, torch.tensor(value), v)
    return v


KINDS = {
    "stock": None,
    "sign-mixed": lambda x, g, power: normal(x, g),
    "scaled-up": lambda x, g, power: x.float() * 3,
    "scaled-down": lambda x, g, power: x.float() * 0.01,
    "shifted": lambda x, g, power: extreme_at(normal(x, g) + 2.5, 0),
    "heavy-tail": lambda x, g, power: heavy_tail(x, g),
    "negative": lambda x, g, power: negative(x, g, power < 0),
    "large": lambda x, g, power: normal(x, g).clamp(-4, 4) * 2.0 ** (power - 2),
    "rows": lambda x, g, power: rows(x, g, power >= 0),
    "near-one": lambda x, g, power: near_one(x, g),
    "defaults": lambda x, g, power: normal(x, g),
    "edge": lambda x, g, power: edge(x, g),
}
# "large" goes up to 2^power. A product of four such values stays below 2^100, so a sum of honest
# terms overflows in no order.
LARGE_POWERS = (24, 16, 10, 9, 8, 6.3, 5, 4)
# Where positions are returned, the attempt of a kind from which the others may not differ in them:
# which of several elements that became equal a position names is nobody's contract.
PLAINEST = {"large": (False, LARGE_POWERS[-1]), "negative": (False, 0)}


def attempts(kind, returns_positions):
    """(positive, power) in the order in which they are tried: the first under which the reference
    stays finite and exact is taken. Positive: magnitudes alone, for references that are undefined
    below zero. A power below zero stands for deep rows among negative ones, and for rows without
    ties: which of several equal elements an index names is for the reference's documentation to
    say, and it mostly does not. A power of 1 stands for masks that leave something of each row, and
    for inputs of which no whole row is another's."""
    if kind == "stock":
        return [(False, 0)]
    if returns_positions and kind == "rows":
        return [(False, -1)]
    if kind == "large":
        return [(False, p) for p in LARGE_POWERS] + [(True, p) for p in LARGE_POWERS]
    if kind == "negative":
        return [(False, -1), (False, 0)]
    if kind in ("rows", "near-one"):
        return [(False, 0), (False, 1), (True, 1)]
    return [(False, 0)] if kind in ("negative", "edge") else [(False, 0), (True, 0)]


def transform(x, domain, kind, generator, positive, power):
    """One input under a kind of values."""
    if kind == "rows" and domain.values == "mask" and not domain.is_fixed:
        return mask_rows(x, generator, power == 0)
    if kind in ("rows", "negative") and not x.is_floating_point():
        is_first = power == (0 if kind == "rows" else -1)
        if kind == "rows" and power == -1:
            return ends_once(extremes_outside(x, domain, True, None), x, domain)
        return extremes_outside(x, domain, kind == "rows", generator if is_first else None)
    if KINDS[kind] is None or domain.kind == "keep":
        return x
    if domain.kind != "free":
        spread = 30 if kind in ("large", "rows") else 3      # rows of probabilities close to one and zero
        logits = spread * normal(x, generator)
        if domain.kind == "log-probability":
            return like(x, torch.log_softmax(logits.clamp(-20, 20) if spread == 3 else logits, -1))
        values = torch.softmax(logits, -1)
        return like(x, certain_rows(values) if kind == "rows" and not positive else values)
    values = KINDS[kind](x, generator, power)
    # What two inputs that lie on two sides of zero give in products is far below it.
    values = -values if kind == "shifted" and domain.is_other else values
    values = values.abs() if positive else values
    return like(x, keep_structure(x, values))


def ends_once(values, x, domain):
    """The ends of the range that the task asked for, where positions are returned: no number that
    is there already."""
    flat = values.flatten()
    if domain.asked and flat.numel() > 2 and not torch.equal(values, x):
        for place, end in ((0, domain.asked[1]), (-1, domain.asked[0])):
            if not (flat == end).any():
                flat[place] = end
    return like(x, flat.reshape(x.shape))


def certain_rows(values):
    """Probabilities of which some rows have all at one place, at two, or the same everywhere."""
    one_hot = torch.nn.functional.one_hot(values.argsort(-1), values.shape[-1]).float()
    number = torch.arange(values[..., 0].numel()).reshape(values.shape[:-1])[..., None] % 6
    for i, row in ((0, one_hot[..., -1, :]), (3, one_hot[..., -1, :]), (1, one_hot[..., -2:, :].mean(-2)),
                   (4, torch.full_like(values, 1 / values.shape[-1]))):
        values = torch.where(number == i, row, values)
    return values


def mask_rows(x, generator, may_be_empty):
    """A drawn mask with rows of ones, rows with a single one, and empty rows where the reference
    takes them. What holds for all rows stays: as many ones in each, or all of them first."""
    if x.dim() == 0 or x.shape[-1] < 2 or x.dim() == 2 and x.shape[0] == x.shape[1] and torch.equal(x, x.T):
        return x
    flat = x.reshape(-1, x.shape[-1]).float()
    if flat.shape[0] > 1 and (flat.sum(1) == flat[0].sum()).all():
        return x
    place = torch.randint(0, flat.shape[1], (flat.shape[0], 1), generator=generator)
    place = torch.zeros_like(place) if (flat[:, 1:] <= flat[:, :-1]).all() else place
    what = torch.randperm(flat.shape[0], generator=generator)[:, None] + torch.randint(0, 5, (1,), generator=generator)
    kinds = (torch.ones_like(flat), torch.zeros_like(flat).scatter_(1, place, 1.0),
             torch.zeros_like(flat) if may_be_empty else flat)
    for i, row in enumerate(kinds):
        flat = torch.where(what % 5 == i, row, flat)
    return like(x, flat.to(x.dtype).reshape(x.shape))


NAMED_SHARE = 1 / 8      # of whole numbers that are ones which the task's text names


def extremes_outside(x, domain, largest_first, generator):
    """The same integers with the largest and the smallest at the two ends, where a maximum must not
    miss them. Sorted ones (offsets) stay sorted. With a generator, and of what the task itself
    asked one for: the ends of the range that it named, half equal to the one before, and some that
    its text names (a token that stands for nothing); where the largest comes first, some rows are
    one number throughout, also the largest, which a sum or a count of them must hold."""
    flat = x.flatten()
    if (x.dtype == torch.bool or domain.is_fixed or domain.values != "other" or flat.numel() < 3
            or domain.has_partner or (flat[1:] >= flat[:-1]).all()):
        return x
    flat = flat.clone()
    if domain.asked and generator:
        flat = torch.where(torch.rand(flat.shape, generator=generator) < 0.5, flat.roll(1), flat)
        if domain.named:
            number = torch.randint(0, len(domain.named), flat.shape, generator=generator)
            flat = torch.where(torch.rand(flat.shape, generator=generator) < NAMED_SHARE,
                               torch.tensor(domain.named, dtype=flat.dtype)[number], flat)
        flat[0], flat[-1] = domain.asked[largest_first], domain.asked[not largest_first]
        values = flat.reshape(x.shape)
        return like(x, one_number(values, domain, generator) if largest_first and x.dim() > 1 else values)
    for place, at in ((0, flat.argmax() if largest_first else flat.argmin()), (-1, None)):
        at = (flat[1:].argmin() if largest_first else flat[1:].argmax()) + 1 if at is None else at
        flat[place], flat[at] = flat[at].clone(), flat[place].clone()
    return like(x, flat.reshape(x.shape))


def one_number(values, domain, generator):
    """Some rows of whole numbers are the largest, the smallest or their own first throughout."""
    deck = torch.randperm(values[..., 0].numel(), generator=generator).reshape(values.shape[:-1])[..., None]
    for number, row in ((0, values[..., :1]), (1, domain.asked[0]), (2, domain.asked[1])):
        values = torch.where(deck % 6 == number, row, values)
    return values


def keep_structure(x, values):
    """Zeros, symmetry and halves of rows that are the same (tables of a rotary embedding, of which
    kernels read one half), and what is no finite number."""
    if (x == 0).float().mean() > ZERO_FRACTION:
        values = values * (x != 0)
    if x.dim() and x.shape[-1] >= 4 and x.shape[-1] % 2 == 0:
        if is_repeated(*x.chunk(2, -1)):
            values = values.chunk(2, -1)[0].repeat(*[1] * (x.dim() - 1), 2)
        elif is_repeated(x[..., 0::2], x[..., 1::2]):
            values = values[..., 0::2].repeat_interleave(2, -1)
    if x.dim() == 2 and x.shape[0] == x.shape[1] and x.shape[0] > 1 and torch.equal(x, x.T):
        values = torch.triu(values) + torch.triu(values, 1).T
    # Another input's may have come here; the task's own numbers stand there then.
    own, values = oracle_pack.readable(x), oracle_pack.readable(values)
    if not torch.isfinite(own).all():
        values = torch.where(torch.isfinite(own) & torch.isfinite(values), values.to(own.dtype), own)
    return values


def is_repeated(first, second):
    """Whether one half of each row repeats the other, and rows are no single number repeated."""
    return torch.equal(first, second) and not torch.equal(first, first[..., :1].expand_as(first))


def other_default(x, domain, generator):
    """Another value for an input that is the same under every seed; None where there is nothing to
    vary."""
    if domain.values == "zeros" and x.is_floating_point():
        return like(x, normal(x, generator))
    if domain.values in ("zeros", "mask") or x.dtype == torch.bool:
        mask = torch.rand(x.shape, generator=generator) < 0.6
        if mask.dim() > 0 and mask.numel() and mask.shape[-1] > 1:
            mask[..., 0] = True           # no row is masked as a whole: what a softmax gives there is nobody's contract
        return like(x, mask.to(x.dtype))
    if domain.values == "additive":
        # What it keeps out stays out, since kernels may leave that out unread; of the rest, the
        # first of each row stays.
        more = (torch.rand(x.shape, generator=generator) < 0.4) & (x == 0)
        if x.dim():
            more &= (x == 0).cumsum(-1) > 1
        return like(x, torch.where(more, x.min(), x))
    if domain.values == "signs":
        return like(x, torch.where(torch.rand(x.shape, generator=generator) < 0.5, -1, 1).to(x.dtype))
    if x.is_floating_point():
        return like(x, keep_structure(x, normal(x, generator))) if domain.kind == "free" else None
    if domain.is_parts:
        return None if domain.has_partner else like(x, oracle_rows.other_parts(x, domain.longest, generator))
    lowest, highest = domain.range
    flat = x.flatten()
    if x.dim() == 1 and are_offsets(flat):
        return like(x, other_offsets(flat, generator))
    # arange and other orders: a permutation keeps what it indexes
    if flat.numel() == torch.unique(flat).numel():
        return like(x, flat[torch.randperm(flat.numel(), generator=generator)].reshape(x.shape))
    # one number throughout (lengths that are all full): half of them are less, and none is zero
    if lowest == highest and lowest > 1:
        less = torch.randint(1, int(highest) + 1, x.shape, generator=generator)
        return like(x, torch.where(torch.rand(x.shape, generator=generator) < 0.5, less.to(x.dtype), x))
    return like(x, torch.randint(int(lowest), int(highest) + 1, x.shape, generator=generator).to(x.dtype))


def are_offsets(flat):
    """Whether whole numbers say where parts begin: in order, and not one after another."""
    steps = flat[1:] - flat[:-1]
    return flat.numel() > 1 and bool((steps >= 0).all()) and not bool((steps == 1).all()) and bool(steps.any())


def other_offsets(flat, generator):
    """Parts of other lengths between the same ends, with empty ones where there were such."""
    inner, lowest, highest = flat.numel() - 2, int(flat[0]), int(flat[-1])
    if (flat[1:] == flat[:-1]).any():
        between = torch.randint(lowest, highest + 1, (inner,), generator=generator)
    else:
        between = lowest + 1 + torch.randperm(highest - lowest - 1, generator=generator)[:inner]
    return torch.cat([flat[:1], between.sort().values.to(flat.dtype), flat[-1:]])


def like(x, values):
    """values in x's dtype and strides; what is expanded takes the first of each dimension that it
    repeats."""
    if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.stride())
        return like(x[once], values.expand(x.shape)[once]).expand(x.shape)
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(values)


def scaled(x, factor):
    """Times a factor, where numbers are free; what is no finite number stays."""
    if factor == 1:
        return x
    own = oracle_pack.readable(x)
    return like(x, torch.where(torch.isfinite(own), own * factor, own))


# ---- inputs that meet ----

def shared(tensors, domains, generator, whole):
    """Inputs that one shape broadcasts to another have half of the larger one's elements in common.
    whole: some rows are another's as they are, or with the other sign."""
    out = list(tensors)
    may = [i for i, (t, d) in enumerate(zip(tensors, domains))
           if t.is_floating_point() and d.kind == "free" and t.numel() and t.dim()]
    done = []
    for i in sorted(may, key=lambda i: tensors[i].numel()):
        t = out[i]
        other = next((out[k] for k in done if out[k].dtype == t.dtype and reaches(out[k].shape, t.shape)), None)
        if other is not None:
            other = other.expand(t.shape)
            out[i] = torch.where(torch.rand(t.shape, generator=generator) < 0.5, other, t)
            deck = torch.randperm(t[..., 0].numel(), generator=generator).reshape(t.shape[:-1])[..., None]
            deck = deck + torch.randint(0, 6, (1,), generator=generator)
            for number, row in ((0, other), (1, -other)) if whole else ():
                out[i] = torch.where(deck % 6 == number, row, out[i])
        done.append(i)
    return out


def reaches(small, large):
    """Whether elements of one shape have partners in the other, along its last dimension at
    least."""
    if len(small) > len(large) or small[-1] != large[-1]:
        return False
    return all(a in (1, b) for a, b in zip(reversed(small), reversed(large)))


# ---- strides ----

def text_allows_strides(source):
    """Whether the task says that its inputs may have any strides. Where it does not, only those
    inputs get others that it hands over in a layout of its own (a transposed weight)."""
    return re.search(r"(non|not)[ -]contiguous|\bstrided\b|any strides?\b", source, re.I) is not None


def strided(x, number, anything):
    """The same values with other strides; between them lie NaNs, or the largest integers, which
    nobody may read."""
    if x.dim() == 0 or x.numel() < 2 or any(s == 0 for s in x.stride()) or x.is_contiguous() and not anything:
        return x
    shape = list(x.shape)
    if x.dim() >= 2 and number % 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    wide = shape[:-1] + [shape[-1] + 3]
    filler = math.nan if x.is_floating_point() else True if x.dtype == torch.bool else torch.iinfo(x.dtype).max
    base = (torch.full(wide, filler, dtype=x.dtype) if x.dim() >= 2
            else torch.full((2 * shape[0],), filler, dtype=x.dtype))
    view = base[..., :shape[-1]] if x.dim() >= 2 else base[::2]
    return view.copy_(x)


# ---- sizes ----

def behind_a_block(low, high, draw):
    """Of the odd sizes from low to high one that lies behind the largest power of two's multiple: a
    loop that ends one element early loses a whole block there, and nothing elsewhere."""
    odd = range(low | 1, high + 1, 2)
    block = max((n - 1 & 1 - n for n in odd), default=0)
    return draw.choice([n for n in odd if n - 1 & 1 - n == block]) if block else None


def smaller(value, draw, at_block=False):
    """A secret smaller odd size that is no multiple of a block; very small ones grow instead."""
    if value >= 16:
        size = int(value * draw.uniform(0.6, 0.9)) | 1
        return at_block and behind_a_block(int(value * 0.6), int(value * 0.9), draw) or size
    # no power of two, which a mask could end at
    return (value * 3 // 4) | 1 if value >= 5 else {1: 3, 2: 3, 3: 5, 4: 3}[value]


def larger(value, draw, share, at_block=False):
    """A secret larger size, up to the next power of two; share (0 to 1) of the way at most. A power
    of two grows by a little, an odd size to an even one."""
    power = 1 << (value - 1).bit_length()
    room = power - value if value < power else max(1, value // 16)
    most = value + max(1, int(room * share))
    size = draw.randint(value + 1, most)
    if at_block and value % 2 == 0:
        return behind_a_block(value + 1, most, draw) or size
    # smaller sizes are odd, so where the task's own is as well this one is even
    return size - 1 if value % 2 and size % 2 else size


def rounds_up_alike(stock, other):
    """Whether blocks that were rounded up to a power of two for the stock shapes reach the other
    ones, for each dimension and each product of neighbouring ones: a kernel may take a whole row,
    or a whole small tensor, in one block. What was a power of two may outgrow its block."""
    for a, b in zip(stock, other):
        for i in range(len(a)):
            for j in range(i + 1, len(a) + 1):
                before, after = math.prod(a[i:j]), math.prod(b[i:j])
                power = 1 << max(before - 1, 0).bit_length()
                if before < power < after:
                    return False
    return True


def size_variants(source, kind, seed, taken=(), tied=((), ())):
    """(source, {name: (old, new)}) with other sizes, best first: smaller or larger ones, or smaller
    ones among which the constructor's are ("built"). Sizes are module-level integer constants;
    literals inside get_inputs() are the task's statement that it has one size. What only
    get_inputs() uses changes first, all of it together and then each alone; then what the
    constructor's arguments share. The module is executed anew, so everything that is computed from
    a size follows it, on both sides. At last sizes are halved or doubled, for networks that need
    their divisors. taken: names that the smaller sizes could change. tied: sizes to which a list of
    the text belongs, which stay equal where they are, and those of them that stay as they are
    (oracle_rows.py)."""
    draw = random.Random(seed)
    # Either the smaller or the larger sizes lie right behind blocks, and the others anywhere.
    at_block = (draw.random() < 0.5) == (kind == "larger")
    groups = constant_groups(source, kind == "built", tied[1])[:VARIANT_ATTEMPTS]
    equal = lambda group, values: [values[[s.value for s in group].index(s.value)] if s.value in tied[0] else v
                                   for s, v in zip(group, values)]
    is_larger = kind == "larger"
    grow = [lambda v, share=share: larger(v, draw, share, at_block) for share in (1, 0.5, 0.25, 0)]
    for group in groups:
        for way in grow if is_larger else [lambda v: smaller(v, draw, at_block or v % 2)]:
            yield sized(source, group, equal(group, [way(s.value) for s in group]))
    # What has to be divided (by heads, by groups) is no power of two at three quarters of one.
    for group in (groups or left_over(source, taken)) if kind == "built" else []:
        yield sized(source, group, [s.value * 3 // 4 if s.value % 4 == 0 and s.value >= 8 else s.value for s in group])
    for group in groups if kind != "built" else []:
        yield sized(source, group, [2 * s.value if is_larger else max(s.value // 2, 1) for s in group])


def left_over(source, taken):
    """Where the constructor takes no size: those of get_inputs that had to stay when others became
    odd."""
    pure = constant_groups(source, False)[:1]
    left = [s for group in pure for s in group if s.name not in taken and s.value % 4 == 0 and s.value >= 8]
    return [left] if taken and left else []


def sized(source, group, values):
    return (oracle_size.rewritten(source, group, values),
            {s.name: (s.value, v) for s, v in zip(group, values) if s.value != v})


def names_in(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def names_in_constructors(tree):
    """What the constructors of a module's classes read, their defaults included."""
    constructors = [f for c in tree.body if isinstance(c, ast.ClassDef) for f in c.body
                    if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    return set().union(*map(names_in, constructors))


def constant_groups(source, is_built, held=()):
    """Lists of sites that change together. is_built: each has a size that the constructor takes,
    where a list without any comes first otherwise. held: values that stay."""
    # Where numbers stand at the top of the module, which functions use them, and which names are
    # made of them.
    tree = ast.parse(source)
    sites = [s for s in oracle_size.sites_of(source, in_functions=False)
             if s.value <= VARIANT_CONSTANT_MAX and s.value not in held]
    bases = {s.name.split("[")[0] for s in sites}
    functions = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    derived = {node.targets[0].id: names_in(node.value) for node in tree.body if isinstance(node, ast.Assign)
               and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and node.targets[0].id not in bases}

    def with_derived(names):
        for _ in range(len(derived)):
            names = names | {n for d in names & set(derived) for n in derived[d]}
        return names & bases

    def used_by(function):
        return with_derived(names_in(functions[function]) if function in functions else set())

    # Sizes of the inputs alone, those that the constructor or the model uses too, and those that
    # the constructor alone takes. What a constructor reads from the module and is not given stays:
    # a candidate's constructor is given nothing that says it, and has the number in its own text.
    in_inputs, elsewhere = used_by("get_inputs"), used_by("get_init_inputs") | used_by("Model")
    unsaid = with_derived(names_in_constructors(tree)) - used_by("get_init_inputs")
    order = sorted((s for s in sites if s.name.split("[")[0] not in unsaid), key=lambda s: (-s.value, s.name))
    pure = [s for s in order if s.name.split("[")[0] in in_inputs - elsewhere]
    shared = [s for s in order if s.name.split("[")[0] in in_inputs & elsewhere]
    built = [s for s in order if s.name.split("[")[0] in used_by("get_init_inputs") - in_inputs and s.value >= 8
             and not oracle_size.COUNT_NAME.search(s.name)]
    # Together first, then one by one; shared ones move beside all of the inputs' own.
    alone = [[s] for s in pure] if len(pure) > 1 else []
    groups = [pure, *alone, pure + shared if shared else [], *[[s] for s in shared]]
    if is_built:
        groups = [pure + shared + built, *[pure + [s] for s in shared + built]] if shared and pure or built else []
    return [g for i, g in enumerate(groups) if g and g not in groups[:i]]
