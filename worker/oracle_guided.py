"""Guided trials: inputs by recipe, on which one candidate's comparisons take sides that the
ordinary trials left out.

A recipe is {"seed", "edits": [...]}: ordinary values of two signs under that seed, changed by each
edit in turn. Where an edit would leave what an input may be (oracle_inputs.Domain) it leaves the
input alone. docs/worker-protocol.md lists the edits; src/verify/guided_step.c chooses them.
"""
import torch

import oracle
import oracle_inputs
import oracle_pack
import oracle_state
import oracle_usable
import wire
from oracle_faults import theirs
from oracle_reference import Reference, device_mode

DISTRIBUTION = "sign-mixed"
SHARE = 1 / 8       # of an input's elements that `sprinkle` sets, in every second row
NAME_MAX = 90


def serve(job, sock):
    """Answers recipes until the supervisor closes its socket."""
    torch.set_num_threads(1)
    source, kind = job["source"], job["guided"]["kind"]
    with device_mode(source, "cpu"):
        variant = oracle.Variant(Reference(source, job["init_seed"]), kind, {}, job["guided"]["probe_seed"])
        variant.is_plain = variant.is_asked = False
        variant.is_short = None
        if kind == "strided":
            variant.any_strides = oracle_inputs.text_allows_strides(source)
        while True:
            try:
                recipe, _ = wire.recv(sock)
            except EOFError:
                return
            answer(variant, recipe, sock)


def answer(variant, recipe, sock):
    name = name_of(recipe["edits"])
    named = lambda op: [p for e in recipe["edits"] if e["op"] == op for p in e["at"] if isinstance(p[0], str)]
    trial = {"seed": recipe["seed"], "distribution": DISTRIBUTION, "parameters": "random", "placed": named("place"),
             "dominant": [(name, at, shares(e)[i] * e["by"]) for e in recipe["edits"] if e["op"] == "dominate"
                          for i, (name, at, _) in enumerate(e["at"]) if isinstance(name, str)]}
    skip = lambda why: wire.send(sock, {"trial": {"distribution": name, "skipped": wire.words(why[:300])}})
    try:
        r = result(variant, trial, recipe["edits"])
        if r is not None and not is_good(variant, r) and turns_plain(variant, trial):
            r = result(variant, trial, recipe["edits"])
    except theirs() as e:
        return skip(f"{type(e).__name__}: {e}")
    if r is None:
        return skip("no input may take such values")
    if not is_good(variant, r):
        return skip("the reference is not finite and exact there")
    if not r["is_short"] and is_short(variant, trial):
        return skip("the reference casts to a whole number what 32 bits do not hold")
    message, given, expected = oracle.pack_trial(0, 0, name, r, False)
    wire.send(sock, message, (given.seal(), expected.seal()))
    given.close()
    expected.close()


def result(variant, trial, edits):
    """What the reference makes of a recipe; None where no edit changes anything."""
    call = edited(variant, trial, edits)
    return None if call is None else oracle.run_call(variant, trial, call, any(e["op"] in EQUAL for e in edits))


def is_good(variant, r):
    return oracle_usable.is_finite(r, variant.usual) and oracle_usable.is_exact(r)


def is_short(variant, trial):
    """Whether what the reference casts to whole numbers has 32 bits where nothing was searched:
    torch's indices have 64, and a kernel's need not have them beyond all that the task has."""
    if variant.is_short is None:
        unchanged = {**trial, "placed": [], "dominant": []}
        variant.is_short = result(variant, unchanged, [{"op": "place", "at": []}])["is_short"]
    return variant.is_short


def turns_plain(variant, trial):
    """Whether ordinary values of two signs are already more than the reference takes (a logarithm
    of an input): from then on they are stock values."""
    if variant.is_asked:
        return False
    variant.is_asked = True
    unchanged = {**trial, "placed": [], "dominant": []}
    try:
        variant.is_plain = not is_good(variant, result(variant, unchanged, [{"op": "place", "at": []}]))
    except theirs():
        variant.is_plain = True
    return variant.is_plain


def name_of(edits):
    words = []
    for e in edits:
        values = ", ".join(f"{v:g}" for v in e.get("values", [])[:3])
        words.append(" ".join(w for w in (e["op"], values, f"{e['by']:g}" if "by" in e else "",
                                          f"input {e['input']}" if e.get("input", -1) >= 0 else "") if w))
    return ("guided (" + "; ".join(words))[:NAME_MAX] + ")"


def edited(variant, trial, edits):
    """The call of a recipe; None where no edit changes anything."""
    call = variant.reference.inputs(trial["seed"])
    generator = torch.Generator().manual_seed(trial["seed"] ^ 0x5DEECE66D)
    domains = variant.domains
    before = call.tensors()
    distribution = "stock" if variant.is_plain else DISTRIBUTION
    tensors = [oracle_inputs.transform(t, d, distribution, generator, False, 0) for t, d in zip(before, domains)]
    start = tensors
    for e in edits:
        is_scale = e["op"] == "scale" and SCALES[0] <= abs(e["by"]) <= SCALES[1]
        if variant.returns_positions and e["op"] not in SINGLE and not is_scale:
            return None
        tensors = [one(t, d, i, e, generator) for i, (t, d) in enumerate(zip(tensors, domains))]
        if e["op"] == "ties":
            tensors = oracle_inputs.shared(tensors, domains, generator, True)
    # Single elements may be a parameter's, or already what they should be: other inputs are no sign
    # of an edit then.
    is_placed = any(e["op"] in SINGLE and any(isinstance(p[0], str) for p in e["at"]) or e["op"] == "place"
                    for e in edits)
    if not is_placed and all(a is b or torch.equal(a, b) for a, b in zip(start, tensors)):
        return None
    if variant.returns_positions and any(e["op"] in SINGLE for e in edits):
        tensors = [in_order(s, t) for s, t in zip(start, tensors)]
    tensors = [t if t is s else oracle_inputs.like(b, oracle_inputs.keep_structure(b, t))
               for t, s, b in zip(tensors, start, before)]
    call = oracle.replaced(call, tensors)
    return oracle.strided_call(call, variant.any_strides) if variant.kind == "strided" else call


def in_order(before, after):
    """After an edit of single elements: those that became equal to others of their row or column,
    or to the largest or smallest of all, or far larger than any was, are what they were. Positions
    may be anybody's choice there."""
    if not after.is_floating_point():
        return after
    after, far = after.clone(), SCALES[1] * before.abs().max()
    for at in (before != after).nonzero().tolist():
        value = after[tuple(at)]
        lines = [after[tuple(slice(None) if k == d else i for k, i in enumerate(at))] for d in range(after.dim())]
        is_end = value in (after.max(), after.min())
        if value.abs() > far or any((line == value).sum() > 1 for line in lines + [after] * is_end):
            after[tuple(at)] = before[tuple(at)]
    return after


def with_rest(flat, x, where):
    """Rows of probabilities keep their sum: what was not placed shares what is left of it."""
    is_placed = torch.zeros(flat.shape, dtype=torch.bool)
    is_placed[where] = (flat[where] >= 0) & (flat[where] <= 1)
    new = torch.where(is_placed, flat, x.flatten()).reshape(x.shape).double()
    is_placed = is_placed.reshape(x.shape)
    left = 1 - (new * is_placed).sum(-1, keepdim=True)
    others = (new * ~is_placed).sum(-1, keepdim=True)
    is_changed = is_placed.any(-1, keepdim=True) & (left >= 0) & (others > 0)
    shared = torch.where(is_placed, new, new * left / others).to(x.dtype)
    return torch.where(is_changed, shared, x).flatten()


# By domain: what an input is once elements of it were placed.
SHARES = {"free": lambda flat, x, where: flat, "probability": with_rest}


def place(x, domain, index, e):
    """Elements that have to be certain bits, where the input may have them."""
    is_float = x.is_floating_point()
    is_kept = domain.kind not in SHARES if is_float else not may_vary(x, domain)
    # What is expanded has its elements once.
    if any(stride == 0 and n > 1 for stride, n in zip(x.stride(), x.shape)):
        once = x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.stride())]
        return place(once, domain, index, e).expand(x.shape) if domain.kind != "probability" else x
    own = [(at, bits) for number, at, size, bits in e["at"]
           if number == index and size == x.element_size() and at < x.numel()]
    if not own or is_kept or x.is_complex() or not x.is_contiguous():
        return x
    where, bits = (torch.tensor(v, dtype=torch.int64) for v in zip(*own))
    flat = x.clone().flatten()
    whole = flat.view(oracle_state.WHOLE[x.element_size()])
    whole[where] = bits.to(whole.dtype)
    if is_float:
        flat = SHARES[domain.kind](torch.where(torch.isfinite(flat), flat, x.flatten()), x, where)
    elif flat.min() < domain.range[0] or flat.max() > domain.range[1]:
        return x
    return flat.reshape(x.shape)


def shares(e):
    """No two elements that dominate are alike: of equal ones a maximum hides all but one. Those
    that stand first are the largest, and, below all others, the last."""
    n = len(e["at"])
    return [1 - (i if e["by"] > 0 else n - 1 - i) / (4 * n) for i in range(n)]


def dominate(x, domain, index, e):
    """Single elements as many times as large as the largest of all, or as far below zero; whole
    numbers are the largest or smallest of their range."""
    own = [(at, share) for (number, at, size), share in zip(e["at"], shares(e))
           if number == index and size == x.element_size() and at < x.numel()]
    dense = x.numel() == 1 + sum(stride * (n - 1) for stride, n in zip(x.stride(), x.shape)) and x.numel() > 0
    if not own or not dense or x.is_complex():
        return x
    where, share = (torch.tensor(v) for v in zip(*own))
    new = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
    flat = new.as_strided((x.numel(),), (1,))
    if not x.is_floating_point():
        if may_vary(x, domain):
            flat[where] = domain.range[e["by"] > 0]
        return new
    if domain.kind == "probability":
        flat[where] = (share * 0.9 / len(own) if e["by"] > 0 else share * 0).to(x.dtype)
        return with_rest(new.flatten(), x, where).reshape(x.shape) if x.is_contiguous() else x
    if domain.kind == "free":
        own = oracle_pack.readable(x)
        largest = torch.where(torch.isfinite(own), own, torch.zeros_like(own)).abs().max().float()
        flat[where] = (share * e["by"] * largest).to(x.dtype)
    return new


def one(x, domain, index, e, generator):
    """One input after one edit."""
    if e["op"] == "place":
        return place(x, domain, index, e)
    if e["op"] == "dominate":
        return dominate(x, domain, index, e)
    if e.get("input", -1) not in (-1, index) or x.numel() == 0 or x.dim() == 0 and e["op"] == "ties":
        return x
    if not x.is_floating_point():
        return whole(x, domain, e, generator)
    if domain.kind != "free":
        return x
    return EDITS[e["op"]](x, e, generator).to(x.dtype)


def may_vary(x, domain):
    """Whether integers may be others of their range. Where all differ, as positions do, that is
    what the reference may rely on, unless they come straight from a generator; so is that lengths
    and offsets fit what they divide."""
    return (x.dtype != torch.bool and not domain.is_fixed and domain.values == "other" and not domain.is_parts
            and (domain.asked is not None or torch.unique(x).numel() < x.numel()))


def whole(x, domain, e, generator):
    """Integers take values that were seen to lie within their range, and no others."""
    if e["op"] != "sprinkle" or not may_vary(x, domain):
        return x
    values = sorted({v for given in e["values"] for v in (int(given) - 1, int(given), int(given) + 1)
                     if domain.range[0] <= v <= domain.range[1]})
    return (torch.where(chosen(x, generator), drawn(x, torch.tensor(values, dtype=x.dtype), generator), x) if values
            else x)


def chosen(x, generator):
    """Some elements of every second row."""
    mask = torch.rand(x.shape, generator=generator) < SHARE
    if x.dim() > 1:
        mask &= torch.rand(x.shape[:-1] + (1,), generator=generator) < 0.5
    elif x.dim() == 1 and not mask.any():
        mask[torch.randint(0, x.shape[0], (1,), generator=generator)] = True
    return mask if x.dim() else torch.ones_like(mask)


def drawn(x, values, generator):
    return values[torch.randint(0, len(values), x.shape, generator=generator)]


def neighbours(values, dtype):
    """Each value with the next ones below and above it."""
    v = torch.tensor(values, dtype=torch.float64).to(dtype)
    # a relative step of the type's precision: nextafter has no half types
    if dtype not in (torch.float32, torch.float64):
        step = v * torch.finfo(dtype).eps
        return torch.cat([v, v - step, v + step])
    up, down = torch.full_like(v, float("inf")), torch.full_like(v, float("-inf"))
    return torch.cat([v, torch.nextafter(v, up), torch.nextafter(v, down)])


def sprinkle(x, e, generator):
    return torch.where(chosen(x, generator), drawn(x, neighbours(e["values"], x.dtype), generator), x)


def fill(x, e, generator):
    """Rows of one value each; every third row stays."""
    values = torch.tensor(e["values"], dtype=torch.float64).to(x.dtype)
    if x.dim() == 0:
        return values[0]
    number = torch.arange(x[..., 0].numel()).reshape(x.shape[:-1])[..., None]
    return torch.where(number % 3 == 2, x, values[number // 3 % len(values)])


def grow(x, e, generator):
    """Every second row far out, to one side."""
    if x.dim() == 0:
        return x.abs().float() * e["by"]
    number = torch.arange(x[..., 0].numel()).reshape(x.shape[:-1])[..., None]
    return torch.where(number % 2 == 0, x.abs().float() * e["by"], x.float())


def lone(x, e, generator):
    """One element of each row, in every third row the first and in every third the last."""
    if x.dim() == 0:
        return x
    place = torch.randint(0, x.shape[-1], x.shape[:-1] + (1,), generator=generator)
    number = (torch.arange(place.numel()) + torch.randint(0, 6, (1,), generator=generator)).reshape(place.shape)
    place = torch.where(number % 3 == 0, 0, torch.where(number % 3 == 1, x.shape[-1] - 1, place))
    values = torch.tensor(e["values"], dtype=torch.float64).to(x.dtype)
    return x.clone().scatter_(-1, place, values[number // 3 % len(values)])


def ties(x, e, generator):
    """Half of the elements are equal to the one before."""
    return torch.where(torch.rand(x.shape, generator=generator) < 0.5, x.roll(1, -1), x)


def tiny(x, e, generator):
    """Rows of the size at which a small number counts beside them, beside their squares, and beside
    sums of many of either. Fewer rows than sizes take one turn after another; more need the first
    alone."""
    by, turn = e["by"], e["turn"]
    rungs = torch.tensor([by ** 0.5, by ** 0.5 / 64, by, by / 4096])
    if x.dim() == 0:
        return x.float() * rungs[turn]
    deck = torch.randperm(x[..., 0].numel(), generator=generator).reshape(x.shape[:-1])[..., None]
    return x.float() * rungs[(deck + turn) % 4] if turn == 0 or deck.numel() < 4 else x


EDITS = {
    "scale": lambda x, e, g: x.float() * e["by"],
    "shift": lambda x, e, g: x.float() + e["by"],
    "sprinkle": sprinkle,
    "fill": fill,
    "lone": lone,
    "grow": grow,
    "uniform": lambda x, e, g: torch.full_like(x, e["by"]),
    "ties": ties,
    "tiny": tiny,
    "tiny-positive": lambda x, e, g: x if (t := tiny(x, e, g)) is x else t.abs(),
}
# Behind these some rows have equal elements, of which rounding may be all that is left.
EQUAL = {"fill", "uniform", "ties"}
# Edits of single elements.
SINGLE = {"place", "dominate"}
# Where the reference returns positions nothing may make elements equal, or so large that a function
# saturates: which of equal elements a position names is for the reference's documentation to say,
# and it mostly does not.
SCALES = (1 / 64, 4)
