"""The oracle: owns one task's reference, makes the trials' inputs and parameters and computes what
is expected, in its own sandboxed process.

The task's source is a stranger's code too, so this process is forked and sandboxed like a tracer's;
it never sees a candidate. Bulk data leaves in sealed memfds: `given` (inputs and parameters, which
the runner may see) and `expected` (which only the supervisor sees). docs/verifier.md has the
messages."""
import contextlib
import copy
import inspect
import linecache
import sys
import traceback

import torch

import oracle_cost
import oracle_device
import oracle_faults
import oracle_guided
import oracle_inputs
import oracle_proof
import oracle_library
import oracle_rows
import oracle_scale
import oracle_size
import oracle_sized
import oracle_state
import oracle_template
import output_form
import wire
from oracle_faults import theirs
from oracle_pack import EXPECTED_BYTES_MAX, GIVEN_BYTES_MAX, Fault, Pack, describe, dtype_name, same_bytes
from oracle_reference import (DRAW_SEED, TASK_FILE, Asked, Draws, Fits, Reference, clone_tensor, device_mode, forward,
                              forward_double, named_tensors, plain_outputs, seed_all)
from oracle_usable import is_exact, is_finite, noise_of, unlike_numbers, vanishes

SANDBOX = {"allow_memfd": 1}
WIDE_KIND = "near-one"      # inputs of which parameters are varied most
VARIANTS = ("stock", "smaller", "larger", "strided", "built")


class Variant:
    """The reference with one set of sizes and one way of laying inputs out."""

    def __init__(self, reference, kind, changed, probe_seed):
        self.reference, self.kind, self.changed = reference, kind, changed
        self.initial = {n: t.detach().clone() for n, t in named_tensors(reference.model)}
        self.modes = [(m, m.training) for m in reference.model.modules()]
        self.draws, self.drawn, self.any_strides, self.returns_positions = [], [], False, False
        # Of each output on the task's own inputs: what it holds beside finite numbers; its shape.
        self.usual, self.shapes = [], []
        self.is_cut = False        # forward reads where parts are, and they are not there
        self.training = self.settle_mode(probe_seed)
        second = reference.inputs(probe_seed + 1).tensors()
        with Asked() as asked:
            call = reference.inputs(probe_seed)
        first = call.tensors()
        named = oracle_inputs.whole_numbers_of(reference.source)
        self.domains = [oracle_inputs.Domain(a, b, asked.range_of(a), named) for a, b in zip(first, second)]
        oracle_rows.settle_parts(self.domains, first, second, call.numbers())
        # Of sizes that are drawn whole numbers tell (lengths, ends): they stay as they were drawn.
        for domain in self.domains if reference.draws_sizes else []:
            domain.is_fixed, domain.asked, domain.named = False, None, []
        free = [d for d in self.domains if d.kind == "free"]
        for number, domain in enumerate(free):
            domain.is_other = number % 2 == 1

    def fresh_model(self):
        model = self.reference.model
        with torch.no_grad():
            for name, t in named_tensors(model):
                t.copy_(self.initial[name])
        for module, training in self.modes:
            module.training = training
        return model

    def settle_mode(self, seed):
        """Modules stay in the mode that the constructor left them in (training, unless it says
        otherwise), as KernelBench does, unless forward drops at random there and not in eval mode.
        A forward that draws tensors of random numbers is called under one seed, and a candidate
        that draws the same gets the same (docs/verifier.md, Draws)."""
        for is_eval in (False, True):
            if is_eval:
                self.modes = [(m, False) for m, _ in self.modes]
            inputs = self.reference.inputs(seed)
            runs = [self.probe(inputs, noise) for noise in (1, 2)]
            self.casts = runs[0][1].casts
            self.usual = [unlike_numbers(t) for t in runs[0][0]]
            self.shapes = [t.shape for t in runs[0][0]]
            self.returns_positions = any(not t.is_floating_point() and t.dtype != torch.bool for t in runs[0][0]) and (
                runs[0][1].is_open or runs[0][1].has_places and self.uses_places(inputs, runs[0][0]))
            drawn = [r[1] for r in runs]
            is_same, is_draw = same_bytes(runs[0][0], runs[1][0]), drawn[0].kinds == {"draw"}
            # A forward that sets its own seed draws the same in both, and so does a candidate.
            is_seeded = is_draw and drawn[0].seeds == drawn[1].seeds
            if is_draw and (is_seeded or not is_same) and same_bytes(runs[0][0], self.probe(inputs, 1)[0]):
                self.settle_draws(*drawn, inputs)
                return self.fresh_model().training
            if is_same:
                self.check_plain(seed)
                return self.fresh_model().training
        raise Fault("task-random",
                    "two calls of the reference on the same inputs differ: nothing can be compared with it")

    def settle_draws(self, first, second, inputs):
        """What forward draws, and what of each draw is the same in a candidate's (draw_law.py)."""
        self.draws = first.taken
        places = self.places_of(inputs) or [None] * len(self.draws)
        for how, law, a, b, place in zip(first.how, first.laws, first.seeds, second.seeds, places):
            seed = a if a == b else None
            is_plain = seed is None and place != "cpu"
            self.drawn.append({"drawn": how if is_plain else "other", "law": law, "seed": seed,
                               "place": {"meta": "device", "cpu": "host"}.get(place)})

    def places_of(self, inputs):
        """Where forward draws, asked with all that a GPU would have on the meta device; None where
        it does not run there."""
        model = copy.deepcopy(self.fresh_model()).to("meta")
        try:
            with oracle_device.OneDevice("meta"), Draws() as draws, torch.no_grad():
                call = inputs.map(lambda t: t.to("meta"))
                model(*call.args, **call.kwargs)
        except theirs():
            return None
        return draws.places if len(draws.places) == len(self.draws) else None

    def uses_places(self, inputs, outputs):
        """Whether the places that come beside values (max along a dimension, topk, sort) make a
        difference to what is returned."""
        try:
            return not same_bytes(self.probe(inputs, 1, misplaces=True)[0], outputs)
        except theirs():
            return True

    def probe(self, inputs, noise, misplaces=False):
        model, draws = self.fresh_model(), Draws(misplaces=misplaces)
        seed_all(noise)
        has_whole = any(oracle_rows.is_whole_numbers(t) for t in inputs.tensors())
        with model.register_forward_hook(self.see_form), oracle_rows.Cut() if has_whole else contextlib.nullcontext(
                ) as cut:
            outs = forward(model, inputs.map(clone_tensor), draws)
        self.is_cut |= has_whole and cut.is_cut
        return outs, draws

    def see_form(self, model, args, out):
        self.is_tuple = not isinstance(out, torch.Tensor)
        self.form = output_form.form_of(out, lambda v: isinstance(v, torch.Tensor))

    def check_plain(self, seed):
        """Numbers among forward's outputs may not depend on data: a candidate's host code has
        none."""
        if (plain_outputs(self.fresh_model(), self.reference.inputs(seed))
                != plain_outputs(self.fresh_model(), self.reference.inputs(seed + 1))):
            raise Fault("task-unsupported",
                        "forward returns a number that depends on its inputs; only tensors can be compared")

    def is_modeless(self, call):
        """Whether forward gives the same after train() as after eval()."""
        if self.kind != "stock" or self.draws:
            return False
        found = []
        for _ in range(2):
            model = self.fresh_model()
            for module, training in self.modes:
                module.training = training != bool(found)
            try:
                found.append(forward(model, call.map(clone_tensor)))
            except theirs():
                break
        self.fresh_model()
        return len(found) == 2 and same_bytes(*found)

    def inputs(self, seed):
        call = self.reference.inputs(seed)
        return strided_call(call, self.any_strides) if self.kind == "strided" else call

    def describe(self):
        self.fresh_model()
        init, call = self.reference.init, self.inputs(0)
        names = lambda d: {n: describe(v) for n, v in d.items()}
        return {"job": {"init_args": [describe(v) for v in init.args], "init_kwargs": names(init.kwargs),
                        "state": self.reference.state(), "training": self.training, "tuple": self.is_tuple,
                        "modeless": self.is_modeless(call), "form": self.form,
                        "inputs": [describe(v) for v in call.args], "input_kwargs": names(call.kwargs),
                        "names": argument_names(self.reference.model),
                        "draws": [dict(describe(t)["tensor"], **how) for t, how in zip(self.draws, self.drawn)]},
                "kind": self.kind, "source": self.reference.source,
                "changed": {n: list(v) for n, v in self.changed.items()}}


def argument_names(model):
    """Of forward's arguments, as whoever calls it by name has them."""
    return [p.name for p in inspect.signature(model.forward).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def strided_call(call, anything):
    count = iter(range(1 << 20))
    return call.map(lambda t: oracle_inputs.strided(t, next(count), anything))


# ---- trials ----

def make_inputs(variant, trial, positive, power):
    call = variant.reference.inputs(trial["seed"])
    if trial["distribution"] != "stock":
        generator = torch.Generator().manual_seed(trial["seed"] ^ 0x5DEECE66D)
        domains = iter(variant.domains)
        call = call.map(lambda t: oracle_inputs.transform(t, next(domains), trial["distribution"], generator, positive,
                                                          power))
        if trial["distribution"] == "near-one" and not positive and not variant.returns_positions:
            before = call.tensors()
            after = oracle_inputs.shared(before, variant.domains, generator, power == 0)
            call = replaced(call, [a if a is b else oracle_inputs.like(b, oracle_inputs.keep_structure(b, a))
                                   for a, b in zip(after, before)])
    return strided_call(call, variant.any_strides) if variant.kind == "strided" else call


def vary_defaults(variant, trial, call):
    """Other values for the inputs that are the same under every seed, each kept where the reference
    stays finite with it. None when there is none."""
    generator = torch.Generator().manual_seed(trial["seed"] ^ 0x2545F491)
    tensors, varied = call.tensors(), 0
    for i, domain in enumerate(variant.domains):
        if not domain.is_fixed:
            continue
        other = oracle_inputs.other_default(tensors[i], domain, generator)
        if other is None or torch.equal(other, tensors[i]):
            continue
        tried = tensors[:i] + [other] + tensors[i + 1:]
        try:
            seed_all(DRAW_SEED)
            outs = forward(variant.fresh_model(), replaced(call, tried).map(clone_tensor))
        except theirs():
            continue
        # What decides how large an output is has to stay, since a candidate's
        # host code has no values.
        if ([t.shape for t in outs] == variant.shapes
                and is_finite({"plain": outs, "exact": None}, variant.usual)):
            tensors, varied = tried, varied + 1
    return replaced(call, tensors) if varied else None


FAINT = 0.05            # of an output: an input that moves it by less hardly shows, if it is read at all
LOUD = 0.25             # where it shows
LOUDER = 64.0           # by one step
LOUDEST = 2.0 ** 30
FAINT_INPUTS_MAX = 6


def moved_by(outs, others):
    """The most that an element of some output differs, as a share of it and of what is usual there;
    None where either is no finite number."""
    most = 0.0
    for a, b in zip(outs, others):
        if a.shape != b.shape:
            return None
        if a.is_floating_point() and a.numel():
            a, b = a.double(), b.double()
            is_number = torch.isfinite(a)
            if not torch.equal(is_number, torch.isfinite(b)) or not is_number.any():
                return None
            a, b = a[is_number], b[is_number]
            most = max(most, ((a - b).abs() / (a.abs() + a.abs().mean()).clamp_min(1e-300)).max().item())
    return most


def amplify_faint(variant, trial, call):
    """Inputs that count for next to nothing beside the others (loss + 1e-5 * w ** 2), so much
    larger that they show. None when there is none."""
    tensors = call.tensors()
    free = [i for i, d in enumerate(variant.domains) if d.kind == "free"]
    if variant.returns_positions or variant.draws or not 2 <= len(free) <= FAINT_INPUTS_MAX:
        return None

    def outs_of(i, factor):
        model = variant.fresh_model()
        if trial["parameters"] == "random":
            oracle_state.randomise_state(model, trial["seed"])
        tried = tensors[:i] + [oracle_inputs.scaled(tensors[i], factor)] + tensors[i + 1:]
        seed_all(DRAW_SEED)
        return forward(model, replaced(call, tried).map(clone_tensor))

    louder = {}
    try:
        now = outs_of(free[0], 1)
        for i in free:
            without = outs_of(i, 0)
            share, factor = moved_by(now, without), 1.0
            if share is None or share >= FAINT:
                continue
            while share is not None and share < LOUD and factor < LOUDEST:
                factor *= LOUDER
                share = moved_by(outs_of(i, factor), without)
            # What overflows on its way there is as loud as it may be.
            louder[i] = factor if share is not None else factor / LOUDER
            if share == 0:
                del louder[i]     # nothing hangs on it
    except theirs():
        return None
    if not any(factor > 1 for factor in louder.values()):
        return None
    return replaced(call, [oracle_inputs.scaled(t, louder.get(i, 1)) for i, t in enumerate(tensors)])


def replaced(call, tensors):
    following = iter(tensors)
    return call.map(lambda t: next(following))


def run_trial(variant, trial, positive, power):
    """Everything about one trial as live tensors; None where there is nothing of its kind. Raises
    what the reference raises."""
    call = make_inputs(variant, trial, positive, power)
    if trial["distribution"] == "defaults":
        varied = vary_defaults(variant, trial, call)
        amplified = amplify_faint(variant, trial, varied or call)
        if varied is None and amplified is None:
            return None
        call = amplified or varied
        trial = trial if amplified is None else dict(trial, shown="faint")
    is_sensitive = trial["distribution"] == "rows" or trial.get("wide", 0) > 0 or "shown" in trial
    r = run_call(variant, trial, call, is_sensitive)
    r["shown"] = trial.get("shown", trial["distribution"])
    return r


def run_call(variant, trial, call, is_sensitive=False):
    """The reference on one call, plain and in fp64. is_sensitive: some rows have equal elements, so
    that rounding may be all that is left of them, or weights are large, so that an exponential may
    stand behind sums of thousands. An output that is zero throughout asks the same, since it has no
    size of its own that an error could be small beside."""
    # A model of its own for each call, with the trial's parameters; what forward draws is recorded,
    # so that the twin in fp64 draws the same.
    model = variant.fresh_model()
    if trial["parameters"] == "random":
        oracle_state.randomise_state(model, trial["seed"], trial.get("wide", 0))
    oracle_state.place_state(model, trial.get("placed", ()))
    oracle_state.dominate_state(model, trial.get("dominant", ()))
    params = [(n, t.detach().clone()) for n, t in named_tensors(model)]
    draws = Draws() if variant.draws else None
    given = call.map(clone_tensor)
    seed_all(DRAW_SEED ^ trial["seed"] if variant.draws else DRAW_SEED)
    start = torch.get_rng_state()
    # What forward changed: its inputs, its parameters, its buffers. The twin begins with what was
    # there before.
    with Fits() if variant.casts else contextlib.nullcontext() as casts:
        plain = forward(model, given, draws)
    before, after = call.tensors(), given.tensors()
    input_changes = [not same_bytes([a], [b]) for a, b in zip(before, after)]
    now = dict(named_tensors(model))
    param_changes = {n: not same_bytes([t], [now[n].detach()]) for n, t in params}
    # Outputs that are views of what it was given and leaves alone need no kernel of anybody's.
    kept = [t for t, changes in zip(after, input_changes) if not changes]
    kept += [now[n] for n, changes in param_changes.items() if not changes]
    memory = {t.untyped_storage().data_ptr() for t in kept} - {0}
    passed = [t.layout is torch.strided and t.untyped_storage().data_ptr() in memory for t in plain]
    after = {n: now[n].detach().clone()
             for n, changes in param_changes.items() if changes and now[n].is_floating_point()}
    with torch.no_grad():
        for name, t in params:
            now[name].copy_(t)
    # The twin in fp64, where it runs and returns the same shapes.
    torch.set_rng_state(start)
    exact, after_exact = ((None if trial.get("check")
                           else forward_double(model, call, draws.taken if draws else [], after)) or (None, {}))
    if exact is not None and (len(exact) != len(plain) or any(e.shape != p.shape for e, p in zip(exact, plain))):
        exact = None
    # How far rounding alone moves the rows of such a result.
    drawn = draws.taken if draws else []
    is_noisy = exact is not None and (is_sensitive or any(vanishes(r) for r in exact))
    noise = noise_of(model, call, drawn, exact, trial["seed"]) if is_noisy else None
    return {"inputs": before + drawn, "params": params, "plain": plain, "exact": exact, "noise": noise,
            "passed": passed, "fits": casts is None or casts.fits, "is_short": casts is None or casts.is_short,
            "input_changes": input_changes + [False] * len(drawn), "param_changes": param_changes,
            "after": {n: (t, after_exact.get(n)) for n, t in after.items()}}


def trial_name(name, positive, power):
    return name + (f" (2^{power:g})" if power > 0 else "") + ("-positive" if positive else "")


def pack_expected(expected, plain, exact):
    offset, _ = expected.add(plain.contiguous())
    at = expected.add(exact.double().contiguous())[0] if exact is not None and plain.is_floating_point() else -1
    return {"dtype": dtype_name(plain), "shape": list(plain.shape), "plain": offset, "exact": at}


def pack_trial(index, variant_index, name, r, is_edge):
    given, expected = Pack("given", GIVEN_BYTES_MAX), Pack("expected", EXPECTED_BYTES_MAX)
    message = {"index": index, "variant": variant_index, "distribution": name, "edge": is_edge, "inputs": [],
               "params": [], "outputs": [], "after": []}
    for t, changes in zip(r["inputs"], r["input_changes"]):
        offset, size = given.add(t)
        message["inputs"].append({"offset": offset, "bytes": size, "changes": changes, "dtype": dtype_name(t)})
    for name, t in r["params"]:
        offset, size = given.add(t.contiguous())
        message["params"].append({"name": name, "offset": offset, "bytes": size, "changes": r["param_changes"][name]})
        if name in r["after"]:
            message["after"].append(dict(pack_expected(expected, *r["after"][name]), param=len(message["params"]) - 1))
    for i, plain in enumerate(r["plain"]):
        message["outputs"].append(pack_expected(expected, plain, r["exact"][i] if r["exact"] is not None else None))
        message["outputs"][-1]["passed"] = r["passed"][i]
        if r["noise"] is not None and plain.is_floating_point() and r["noise"][i].numel():
            message["outputs"][-1]["noise"] = expected.add(r["noise"][i])[0]
    return {"trial": message}, given, expected


def send_trial(send, index, variant_index, variant, trial):
    """A hidden trial counts only where the reference is finite and close to its fp64 twin; other
    magnitudes are tried where it is not. A trial that cannot count is reported and left out."""
    kind, why = trial["distribution"], ""
    attempts = oracle_inputs.attempts(kind, variant.returns_positions)
    # Where the reference takes them, parameters as far from their beginning as training may take
    # them.
    ways = [(wide, *a) for wide in (2, 1) for a in attempts if kind == WIDE_KIND] + [(0, *a) for a in attempts]
    for wide, positive, power in ways:
        try:
            r = run_trial(variant, dict(trial, wide=wide), positive, power)
        except Fault:
            raise
        except theirs() as e:
            if kind == "stock" and variant.kind == "stock":
                raise
            why = f"{type(e).__name__}: {e}"
            continue
        # Inputs that are the same under every seed hide nothing.
        if r is None:
            why = "no input is the same under every seed, and none is faint"
            break
        # A reference that overflows, or is far from its twin, says nothing about a candidate: the
        # next magnitude is tried.
        is_told = kind in ("stock", "edge") or is_finite(r, variant.usual)
        if not is_told or kind not in ("stock", "edge") and not is_exact(r):
            why = "the reference is not exact there" if is_told else "the reference is not finite there"
            continue
        is_plainest = oracle_inputs.PLAINEST.get(kind, (positive, power)) == (positive, power)
        if variant.returns_positions and not is_plainest and not keeps_positions(
                variant, dict(trial, wide=wide), positive, power, r):
            why = "other positions than among plainer values"
            continue
        message, given, expected = pack_trial(index, variant_index, trial_name(r["shown"], positive, power), r,
                                              kind == "edge")
        send(message, (given.seal(), expected.seal()))
        given.close()
        expected.close()
        return
    skip(send, index, trial, why)


def keeps_positions(variant, trial, positive, power, result):
    """Whether whole numbers among the outputs are those of fp64, of the plainest values, and of
    where subnormal numbers are zero, and none of those stands among the outputs itself. They have
    few digits left, so which of them is the largest is for nobody to say."""
    plainest = run_trial(variant, trial, *oracle_inputs.PLAINEST[trial["distribution"]])
    torch.set_flush_denormal(True)
    try:
        flushed = run_trial(variant, trial, positive, power)
    finally:
        torch.set_flush_denormal(False)
    others = [plainest["plain"], flushed["plain"], result["exact"] or result["plain"]]
    is_subnormal = lambda t: ((t != 0) & (t.abs() < torch.finfo(torch.float32).tiny)).any()
    return (all(torch.equal(a, b) for other in others
                for a, b in zip(result["plain"], other) if not a.is_floating_point())
            and not any(is_subnormal(t) for t in result["plain"] if t.is_floating_point()))


def skip(send, index, trial, why):
    send({"trial": {"index": index, "distribution": trial["distribution"], "skipped": wire.words(why[:300])}})


# ---- variants ----

def find_sizes(source, job, stock, kind, budget, seed, taken):
    """The first set of other sizes under which the reference still runs and some input has another
    shape."""
    shapes = [list(t.shape) for t in stock.reference.inputs(0).tensors()]
    tied = oracle_rows.ties(source, shapes)
    for text, changed in oracle_inputs.size_variants(source, kind, seed, taken, tied):
        try:
            text = oracle_size.fitting(source, text, job["init_seed"])
            # shapes first: a walk over forward takes many times as long as its inputs' shapes
            if (kind == "larger" and (
                    not oracle_inputs.rounds_up_alike(shapes, oracle_size.input_shapes(text, job["init_seed"]))
                    or budget.why_not(oracle_size.weigh(text, job["init_seed"])))):
                continue
            reference = Reference(text, job["init_seed"])
            inputs = reference.inputs(seed)
            other = [list(t.shape) for t in inputs.tensors()]
            if (other == shapes and kind != "built"
                    or not is_finite({"plain": forward(reference.model, inputs), "exact": None}, stock.usual, 0)):
                continue
            variant = Variant(Reference(text, job["init_seed"]), kind, changed, seed)
            if stock.is_cut or not variant.is_cut:
                return variant
        except theirs():
            continue
    return None


def find_strided(source, job, stock, seed):
    """The stock sizes with other strides, where the task's text allows them and the reference takes
    them."""
    try:
        variant = Variant(Reference(source, job["init_seed"]), "strided", dict(stock.changed), seed)
        variant.any_strides = oracle_inputs.text_allows_strides(source)
        if all(a.stride() == b.stride()
               for a, b in zip(variant.reference.inputs(seed).tensors(), variant.inputs(seed).tensors())):
            return None
        forward(variant.fresh_model(), variant.inputs(seed))
        return variant
    except theirs():
        return None


def find_variants(source, job, stock, budget, seed):
    wanted = {VARIANTS[t["shape_variant"]] for t in job["trials"]}
    found = {"stock": stock}
    for kind in VARIANTS[1:]:
        if kind not in wanted:
            continue
        taken = set(found["smaller"].changed) if "smaller" in found else ()
        variant = (find_strided(source, job, stock, seed) if kind == "strided"
                   else find_sizes(source, job, stock, kind, budget, seed, taken))
        if variant is not None:
            found[kind] = variant
    return found


def measure_cost(variant, seed):
    model = variant.fresh_model()
    inputs = variant.reference.inputs(seed).map(clone_tensor)
    seed_all(DRAW_SEED)
    with torch.no_grad(), oracle_cost.OpLog() as log:
        out = model(*inputs.args, **inputs.kwargs)
    eager, fused = oracle_cost.launches(
        log, [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)])
    return {"eager": eager, "fused": fused, "narrows": log.narrows, "rounds": log.rounds}


NOT_FOUND = {"strided": "the task hands over contiguous inputs alone, and says nothing of others",
             "built": "the constructor takes no sizes, or they are changed already, or no others work"}


def judge(job, send):
    """Does one job; send(message, fds) passes messages on. The last message is {"done": true}."""
    torch.set_num_threads(1)
    announce = lambda phase: send({"phase": phase})
    trials, seed = job["trials"], job["trials"][0]["seed"]
    announce("import")
    budget = oracle_size.Budget(job)
    # Sizes first: how large the task may be here, and for how many trials there is time.
    compile(job["source"], TASK_FILE, "exec")     # a source that does not parse is said so, with its line
    source, judged, time_for = oracle_size.fit(job["source"], job["init_seed"], budget)
    with device_mode(source, "cpu"):
        # The task as it stands, which has to run.
        stock = Variant(Reference(source, job["init_seed"], announce), "stock", judged, seed)
        announce("forward")
        if "proofs" in job:
            send_proofs(send, stock, job["proofs"])
            return
        # Other sizes under which it runs too, then the trials, one message each.
        found = find_variants(source, job, stock, budget, seed)
        names = list(found)
        sites = oracle_sized.sites_of(source)
        send({"task": {"variants": [v.describe() for v in found.values()], "sizes": {s.name: s.value for s in sites},
                       "template": oracle_template.template(source, sites, job["init_seed"])}})
        for index, trial in enumerate(trials):
            kind = VARIANTS[trial["shape_variant"]]
            if kind not in found:
                skip(send, index, trial, NOT_FOUND.get(kind, "no other sizes work"))
            elif index >= time_for:
                skip(send, index, trial, "the reference takes too long for so many trials")
            else:
                send_trial(send, index, names.index(kind), found[kind], trial)
        # What the reference costs, at these sizes and at those that were asked for.
        send({"cost": measure_cost(stock, seed)})
    if job.get("cost_size") or source != job["source"]:
        send({"priced": oracle_scale.priced(job.get("cost_size", ""), job["source"], source, job["init_seed"], stock)})
    send({"done": True})


def send_proofs(send, variant, seeds):
    """The reference as a graph of exact steps, at several points (oracle_proof.py)."""
    graph = None
    for seed in seeds:
        given = Pack("given", GIVEN_BYTES_MAX)
        try:
            message, tables, graph = oracle_proof.describe(variant, seed, given, graph)
        except oracle_proof.Outside as e:
            send({"outside": str(e)[:300]})
            return
        except RuntimeError as e:     # torch's own export cannot follow
            send({"outside": str(e).split("\n")[0][:300]})
            return
        send({"proof": message}, (given.seal(), tables.seal()))
        given.close()
        tables.close()
    send({"done": True})


def fault_of(e):
    words = oracle_faults.words_of(e)
    if oracle_faults.is_ours(e):
        return {"fault": {"code": oracle_faults.CODE, "type": type(e).__name__, "line": 0,
                          "text": f"{oracle_faults.place_of(e)}: {type(e).__name__}: {words}"[:1000]}}
    code = e.code if isinstance(e, Fault) else "task-memory" if isinstance(e, MemoryError) else "task-broken"
    line = e.lineno or 0 if isinstance(e, SyntaxError) and e.filename == TASK_FILE else 0
    for frame in traceback.extract_tb(e.__traceback__):
        if frame.filename == TASK_FILE:
            line = frame.lineno or 0
    text = words if isinstance(e, Fault) else f"{type(e).__name__}: {words}"
    return {"fault": {"code": code, "type": type(e).__name__, "text": text[:1000], "line": line}}


def run(job, sock):
    """The zygote's entry. A task's last message is {"done": true} or a fault."""
    if "library" in job:
        return oracle_library.serve(job, sock)
    send = lambda message, fds=(): wire.send(sock, message, fds)
    try:
        if "guided" in job:
            return oracle_guided.serve(job, sock)
        if "sized" in job:
            return oracle_sized.serve(job, sock)
        judge(job, send)
    except BaseException as e:   # SystemExit too: a task that exits is a broken task
        send(fault_of(e))


WARM_SOURCE = """
import torch
import torch.nn as nn
N = 8
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
    def forward(self, x):
        return torch.softmax(self.linear(x).relu(), -1)
def get_inputs(): return [torch.rand(N, N)]
def get_init_inputs(): return [N]
"""


def warm(_times):
    """Judges one small task, once in any case, so that forks find every module imported: the first
    use of a dispatch mode alone takes a second."""
    trials = [{"seed": 1, "distribution": "sign-mixed", "shape_variant": v, "parameters": "random"} for v in (0, 1, 2)]
    judge({"source": WARM_SOURCE, "init_seed": 1, "trials": trials}, lambda message, fds=(): None)
    sys.modules.pop("task", None)
    linecache.cache.pop(TASK_FILE, None)
