"""Sizes that one candidate names: trials at sizes on the sides of a comparison that the ordinary
trials left out.

The supervisor asks for one side after another, {"side", "number", "modulus", "way", "seed"}, and
gets a trial for each set of sizes that brings it about, or why there is none.
docs/worker-protocol.md lists the sides; src/verify/sized_step.c and powers_step.c choose them. No
word of the candidate's gets here, only numbers."""
import math

import torch

import oracle
import oracle_inputs
import oracle_rows
import oracle_size
import oracle_usable
import wire
from oracle_faults import theirs
from oracle_reference import Reference, device_mode

BYTES_MAX = 48 << 20      # of one trial's inputs, parameters and expected values
SECONDS_MAX = 0.4         # nominal, of the reference
SMALL = (5, 2)            # what other sizes shrink to where all together are too much
PAIRED = 3                # sizes whose order among each other is looked at
BEHIND = 2                # a number k is passed by the size k + 2: an index goes to one less than the size
LIKE_ROOM = 2             # what stands for an ordinary trial may weigh this many of them


def sites_of(source):
    """The constants of a task that are sizes, each once: those that only get_inputs uses first."""
    groups = oracle_inputs.constant_groups(source, False) + oracle_inputs.constant_groups(source, True)
    found = {s.name: s for group in groups for s in group}
    return sorted(found.values(), key=lambda s: s.node.lineno)


def serve(job, sock):
    """Answers until the supervisor closes its socket."""
    torch.set_num_threads(1)
    source = job["source"]
    with device_mode(source, "cpu"):
        sites, like = sites_of(source), Like(job)
        while True:
            try:
                ask, _ = wire.recv(sock)
            except EOFError:
                return
            if "like" in ask:      # in place of an ordinary trial: at the only set that is asked for
                why, way = like.answer(source, sites, ask, sock), 1
            else:
                why, way = answer(job, source, sites, ask, sock)
            wire.send(sock, {"end": wire.words(why), "way": way})


class Like:
    """Trials that stand for ordinary ones at sizes that a candidate does not take: they may weigh
    what those do. One reference at a time is kept, for a set is described first."""

    def __init__(self, job):
        self.job, self.own, self.text, self.variant = job, None, None, None

    def answer(self, source, sites, ask, sock):
        """The description of a set of sizes, where "like" is "", else a trial of the distribution
        "like" there; "" or why there is none."""
        values = ask["sets"][0]
        try:
            self.settle(source, sites, values, ask["probe"])
            if not ask["like"]:
                wire.send(sock, {"variant": self.variant.describe(),
                                 "trial": {"distribution": "", "skipped": "sizes alone"}})
                return ""
            found = trial_of(self.variant, ask["seed"], [(ask["like"], False), (ask["like"], True),
                                                         ("sign-mixed", False), ("stock", False)])
        except theirs() as e:
            return f"{type(e).__name__}: {e}"[:200]
        return send_trial(sock, self.variant, *found) if found else "the reference is not finite and exact there"

    def settle(self, source, sites, values, seed):
        """The reference at these sizes."""
        text = oracle_size.fitting(source, oracle_size.rewritten(source, sites, values), self.job["init_seed"])
        if text == self.text:
            return
        self.own = self.own or oracle_size.weigh(source, self.job["init_seed"])
        load = oracle_size.weigh(text, self.job["init_seed"])
        if (load.given + load.expected > max(BYTES_MAX, LIKE_ROOM * (self.own.given + self.own.expected))
                or load.seconds > max(SECONDS_MAX, LIKE_ROOM * self.own.seconds)):
            raise ValueError(f"{(load.given + load.expected) >> 20} MiB, {load.seconds:.2g} s of the reference")
        changed = {s.name: (s.value, v) for s, v in zip(sites, values) if v != s.value}
        self.variant = variant_at(self.job, source, text, changed, seed)
        self.text = text


def variant_at(job, source, text, changed, seed):
    """The reference at these sizes. Raises where its inputs speak of parts that are not there, and
    at the judged sizes do not."""
    variant = oracle.Variant(Reference(text, job["init_seed"]), "sized", changed, seed)
    if variant.is_cut and not oracle.Variant(Reference(source, job["init_seed"]), "stock", {}, seed).is_cut:
        raise oracle_rows.Contradiction("the inputs speak of parts that are not there")
    return variant


def answer(job, source, sites, ask, sock):
    """Sends what there is to send, from the way on that was asked for; "" where all sizes of a way
    worked, else the reason of the last that did not, and the number of the next way."""
    why, number = "the task has no sizes that can change", 0
    if ask["side"] == "at":      # the first of some sets that works
        for values in ask["sets"]:
            why = attempt(job, source, sites, values, ask["seed"], sock)
            if not why:
                break
        return why, 1
    for number, ways in enumerate(plans(source, sites, ask, job["init_seed"]), 1):
        if number <= ask["way"]:
            continue
        sent = 0
        for values in ways:
            why_not = attempt(job, source, sites, values, ask["seed"], sock)
            sent += not why_not
            why = why_not or why
        if sent == len(ways):
            return "", number
    return why, number


def plans(source, sites, ask, init_seed):
    """Ways to take the side, best first; each is a list of sets of values, all of which are needed.
    All sizes at once, then one by one, then one by one among small ones and among the smallest."""
    values = [s.value for s in sites]
    if ask["side"] == "pair":
        yield from orders(values)
        return
    # What each size would have to be to stand on the asked side.
    wanted = {"above": lambda v: ask["number"] + BEHIND if v < ask["number"] + BEHIND else v,
              "below": lambda v: min(v, max(ask["number"] - 1, 1)), "equal": lambda v: ask["number"],
              "rest": lambda v: following(v, lambda n: n % ask["modulus"] == ask["number"]),
              "no rest": lambda v: following(v, lambda n: n % ask["modulus"] != ask["number"]),
              "bits": lambda v: following(
                  v, lambda n: (n & ask["number"] != 0) != (v & ask["number"] != 0))}[ask["side"]]
    other = [wanted(v) for v in values]
    if ask["side"] == "below" and other == values:
        other = fewer_elements(source, sites, values, ask["number"], init_seed)
    # All that move at once; of an equality first those that grow, then those that shrink.
    moved = [i for i, (a, b) in enumerate(zip(values, other)) if a != b and b >= 1]
    only = lambda i, rest: [other[k] if k == i else rest[k] for k in range(len(values))]
    if ask["side"] == "equal":      # what is larger goes down and what is smaller up, each beside the others' own
        both = [[i for i in moved if other[i] > values[i]], [i for i in moved if other[i] < values[i]]]
        yield [[other[k] if k in part else values[k] for k in range(len(values))] for part in both if part]
    elif moved:
        yield [[other[k] if k in moved else values[k] for k in range(len(values))]]
    # One by one, at the other sizes as they are and then at small ones.
    if moved:
        yield [only(i, values) for i in moved]
        for most in SMALL:
            yield [only(i, [min(v, most) for v in values]) for i in moved]


def orders(values):
    """Sets of sizes, all of them wanted, in which each two of the first are in another order, and
    equal. None is larger than it was, so that what fits stays fitting."""
    lower = lambda k, n: [n if i == k else v for i, v in enumerate(values)]
    sets = []
    for a in range(min(len(values), PAIRED)):
        for b in range(a):
            least = min(values[a], values[b])
            for k in (a, b):      # below the other one, and as the other one
                sets += [lower(k, least - 1)] * (least >= 3 and lower(k, least - 1) not in sets and values[k] >= least)
                sets += [lower(k, least)] * (values[k] > least)
    if sets:
        yield sets


def following(value, holds):
    """The next size above a value for which something holds; the value itself where it does, or
    where none near does."""
    return next((n for n in range(value, value + 4096) if holds(n)), value)


def fewer_elements(source, sites, values, number, init_seed):
    """All sizes lie below the number, but their product may not: the largest of them shrinks."""
    elements = max((math.prod(shape) for shape in oracle_size.input_shapes(source, init_seed)), default=0)
    largest = max(range(len(values)), key=lambda i: values[i])
    shrunk = (number - 1) * values[largest] // max(elements, 1)
    return [shrunk if i == largest and elements >= number else v for i, v in enumerate(values)]


def attempt(job, source, sites, values, seed, sock):
    """One trial at these sizes; "" or why there is none."""
    changed = {s.name: (s.value, v) for s, v in zip(sites, values) if v != s.value}
    try:
        text = oracle_size.fitting(source, oracle_size.rewritten(source, sites, values), job["init_seed"])
        load = oracle_size.weigh(text, job["init_seed"])
        if load.given + load.expected > BYTES_MAX or load.seconds > SECONDS_MAX:
            return (f"{', '.join(f'{n} {v[1]}' for n, v in changed.items())}: {(load.given + load.expected) >> 20} "
                    f"MiB, {load.seconds:.2g} s of the reference")
        variant = variant_at(job, source, text, changed, seed)
        found = trial_of(variant, seed, [("sign-mixed", False), ("stock", False)])
    except theirs() as e:
        return f"{type(e).__name__}: {e}"[:200]
    return send_trial(sock, variant, *found) if found else "the reference is not finite and exact there"


def trial_of(variant, seed, kinds):
    """(name, trial) of the first (distribution, positive) under which the reference can be compared
    with; None."""
    for distribution, positive in kinds:
        r = oracle.run_trial(variant, {"seed": seed, "distribution": distribution, "parameters": "random"}, positive, 0)
        if oracle_usable.is_finite(r, variant.usual) and oracle_usable.is_exact(r):
            return oracle.trial_name(distribution, positive, 0), r
    return None


def send_trial(sock, variant, name, r):
    message, given, expected = oracle.pack_trial(0, 0, name, r, False)
    wire.send(sock, dict(message, variant=variant.describe()), (given.seal(), expected.seal()))
    given.close()
    expected.close()
    return ""
