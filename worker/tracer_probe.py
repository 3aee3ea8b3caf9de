"""tracer_probe: at which sizes a candidate does what it did at no judged one.

Its host code, rewritten so that conditions report what they decide (tracer_sites.py), is called at
many sizes on tensors that have shapes alone. Nothing is compiled: a launch leaves its arguments,
with which the conditions of kernels that follow from arguments are evaluated. Of each set of sizes
this gives which way every condition went, and which arguments launches had. What is another than at
every judged set is *new*, and some set of sizes at which it is so has to be judged.

Sizes are looked for in three ways: a ladder for each size; for a condition that always went one way
but depends on sizes, its expression evaluated at thousands of sizes, as far as it can be followed,
and what is found there called for real; sizes that are drawn. What is found is a question to the
reference, never a verdict. docs/verifier.md, Sizes that take another way.
"""
import ast
import builtins
import contextlib
import itertools
import json
import math
import operator
import random

import numpy
import torch
import triton

import tracer_candidate
import tracer_cuda
import tracer_driver
import tracer_movement
import tracer_record
import tracer_sites
import tracer_tensor

ELEMENTS_MAX = 3 << 20       # of a trial's inputs: what a reference is asked for
LADDER_MAX = 1 << 22
BUILT_MAX = 4096             # of a size that the constructor takes, or four times its own
LAUNCHES_MAX = 256           # of one forward at sizes that are tried: more are a loop over a size
ROWS_MAX = 4096              # at the judged sizes, and the task's own: what a tape holds
REPORTS_MAX = 20000
HITS_MAX = 32                # of one site in one forward
DRAWN = 24                   # sets of sizes that are drawn where some condition stays one-sided
SCANNED = 8192               # values of each size for which an expression is evaluated
SCANNED_SITES = 16
ROUNDS = 3                   # of looking for sizes at which what was found goes another way in turn
NAMED_MAX = 40               # numbers of the text that are tried two at a time
FOUND_MAX = 48               # sets of sizes of one expression
FLIPS_MAX = 6                # of one expression, called for real
GATES_MAX = 8                # conditions in front of it that are asked too
GROUPS_MAX = 8
SETS_MAX = 4
PLAIN = (bool, int, float, str, bytes, type(None))
VALUES = (*PLAIN, tuple, list, dict, set, frozenset, range, torch.dtype)
COMPARE = {"Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
           "GtE": operator.ge, "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b,
           "NotIn": lambda a, b: a not in b}


class End(BaseException):
    """One forward does more than can be looked at."""


class Sites:
    """What rewritten host code reports to: of each site its results in this forward."""

    def __init__(self):
        self.launches_max = LAUNCHES_MAX
        self.begin()

    def begin(self, results={}, leaves={}, operands={}):
        self.results = {key: list(found) for key, found in results.items()}
        self.leaves, self.operands, self.reports, self.launches = dict(leaves), dict(operands), 0, []

    def taken(self):
        return self.results, self.leaves, self.operands

    def take(self, key, result, leaves=(), operands=None):
        self.reports += 1
        if self.reports > REPORTS_MAX:
            raise End
        found = self.results.setdefault(key, [])
        if len(found) < HITS_MAX:
            found.append(result)
        if key not in self.leaves:
            self.leaves[key] = [value_of(leaf) for leaf in leaves]
            self.operands[key] = operands

    def compare(self, site, leaves, name, left, right):
        result = COMPARE[name](left, right)
        if isinstance(result, (bool, numpy.bool_)):
            self.take(site, bool(result), leaves, (left, right) if isinstance(left, PLAIN) and isinstance(right, PLAIN)
                      else None)
        return result

    def truth(self, site, leaves, value):
        if isinstance(value, (*PLAIN, numpy.generic, list, tuple, dict, set, frozenset)):
            self.take(site, bool(value), leaves)
        return value

    def reached(self, site, leaves):
        if site not in self.results:
            self.take(site, True, leaves)

    def ended(self, site, leaves, inside):
        """Behind a block with a manager: whether its own end was reached."""
        self.take(site, inside in self.results, leaves)

    def extreme(self, site, leaves, function, *values):
        result = function(*values)
        if all(isinstance(v, PLAIN) for v in values):
            self.take(site, values.index(result), leaves)
        return result

    def value(self, site, leaves, result):
        if isinstance(result, (*PLAIN, numpy.generic)):
            self.take(site, result.item() if isinstance(result, numpy.generic) else result, leaves)
        return result

    def launch(self, kernel, grid, args):
        """In place of a row of the tape."""
        if len(self.launches) >= self.launches_max:
            raise End
        given = dict(zip(kernel.names, args))
        programs = {f"{tracer_sites.GRID}{axis}": n for axis, n in enumerate(grid)}
        self.launches.append((kernel.name, kernel.num_warps, given, programs, kernel.fn))


class Forced:
    """What rewritten host code reports to where some sites are to have other results than they
    would: those that they have at the task's own sizes. A way that no size takes that fits here is
    taken at one that does."""

    def __init__(self, results):
        self.results = {int(k): v for k, v in results.items()}

    def compare(self, site, leaves, name, left, right):
        return self.results.get(site, COMPARE[name](left, right))

    def truth(self, site, leaves, value):
        return self.results.get(site, value)

    def reached(self, site, leaves):
        pass

    def ended(self, site, leaves, inside):
        pass

    def extreme(self, site, leaves, function, *values):
        return values[self.results[site]] if site in self.results else function(*values)

    def value(self, site, leaves, result):
        return self.results.get(site, result)


def value_of(leaf):
    """What a leaf is there; UNBOUND where it is nothing."""
    try:
        return leaf()
    except Exception:
        return UNBOUND


UNBOUND = object()


class Run:
    """One forward at one set of sizes. values: by name, None where the job came as it is."""

    def __init__(self, values, job):
        self.values, self.job, self.results, self.leaves, self.operands = values, job, {}, {}, {}


class Probe:
    def __init__(self, job, text):
        self.job, self.ask = job, job["probe"]
        self.names, self.own = self.ask["names"], self.ask["own"]
        template = self.ask.get("template") or {}
        self.template, self.free = template.get("job"), template.get("free", [])
        self.stock = self.ask.get("stock_sizes") or self.own
        self.sites, self.runs, self.built = Sites(), {}, None
        self.rec = tracer_record.Recorder()
        self.tracing = tracer_tensor.Tracer(self.rec, tracer_movement.HANDLERS)
        self.random = random.Random(self.ask["seed"])
        self.host, self.kernels = text.host, text.kernels
        self.named = numbers_of(ast.parse(job["source"]))
        self.code = tracer_sites.reporting(text.tree, self.sites)

    # ---- forwards ----

    def run(self, values, job=None):
        """The forward at these sizes, remembered; None where it raises, or there are no such
        sizes."""
        key = tuple(values) if job is None else id(job)
        if key not in self.runs:
            self.runs[key] = None
            # A loop of the host's over a size is followed to its end where it has to be judged.
            is_whole = job is not None or values in self.wholes()
            self.sites.launches_max = ROWS_MAX if is_whole else LAUNCHES_MAX
            with contextlib.suppress(Exception, End):
                self.runs[key] = self.forward(Run(values, job or filled(self.template, values)))
        return self.runs[key]

    def forward(self, run):
        """With a new model where the constructor gets something else, whose own reports count each
        time."""
        job = dict(self.job, **run.job)
        init = [job.get(k) for k in ("init_args", "init_kwargs", "state", "training")]
        self.rec.fault = None
        if self.built is None or self.built[0] != init:
            self.sites.begin()
            self.tracing.phase = "init"
            model = tracer_candidate.build(dict(job, shapes_only=True), self.module)
            tracer_candidate.place(job, model, self.tracing)
            self.built = init, model, self.sites.taken()
        self.sites.begin(*self.built[2])
        self.tracing.phase = "forward"
        args, kwargs, draws, buffers = tracer_candidate.make_inputs(job, self.tracing)
        self.tracing.draws = list(zip(draws, job.get("draws", [])))
        self.rec.begin(buffers)
        self.built[1](*args, **kwargs)
        run.results, run.leaves, run.operands = self.sites.taken()
        run.elements = sum(b.bytes for b in buffers) // 4
        self.launched(run, self.sites.launches)
        return run

    def launched(self, run, launches):
        """What launches say: which there are, their arguments, and the conditions of kernels."""
        run.results["launches", 0, ""] = [tuple(name for name, *_ in launches)]
        for i, (name, warps, given, programs, function) in enumerate(launches):
            plain = {n: v for n, v in given.items() if isinstance(v, PLAIN)}
            for n, v in [("num_warps", warps), *plain.items()]:
                run.results.setdefault(("launch", i, n), []).append(v)
            plain |= programs
            kernel = self.kernels.get(name)
            known = names_of(function.__globals__) if kernel and kernel.sites else {}
            for k, site in enumerate(kernel.sites if kernel else ()):
                if all(leaf in plain for leaf in site.leaves):
                    self.kernel_site(run, (name, k), kernel.codes[k], site, plain, known)

    def kernel_site(self, run, key, code, site, plain, known):
        with contextlib.suppress(Exception):
            result = eval(code, known, plain)
            if isinstance(result, PLAIN):
                found = run.results.setdefault(key, [])
                if len(found) < HITS_MAX:
                    found.append(bool(result) if site.kind == "way" else result)
                run.leaves.setdefault(key, [plain[leaf] for leaf in site.leaves])

    # ---- what is new ----

    def site_of(self, key):
        if isinstance(key, int):
            return self.host[key]
        if key[0] in self.kernels and isinstance(key[1], int) and len(key) == 2:
            return self.kernels[key[0]].sites[key[1]]
        return tracer_sites.Site(1, "way" if key[0] == "launches" else "value")

    def seen(self, runs):
        """{key: results at these runs}."""
        found = {}
        for run in runs:
            for key, results in run.results.items():
                found.setdefault(key, set()).update(results)
        return found

    def new(self, run, judged):
        """{(key, result)} of what this run has and no judged one. A value is new where all judged
        ones have the same other one, whatever it is."""
        found = set()
        for key, results in run.results.items():
            kind, known = self.site_of(key).kind, judged.get(key)
            if kind == "case" and known is None:
                found.add((key, True))
            elif kind == "way" and known is not None:
                found |= {(key, r) for r in results if r not in known}
            elif kind == "value" and known is not None and len(known) == 1 and not set(results) <= known:
                found.add((key, "other"))
        return found

    def open(self, runs):
        """The sites that had one result in all runs though what they look at changed."""
        for key, results in self.seen(runs).items():
            site = self.site_of(key)
            if len(results) != 1 or site.kind == "case" or not site.text:
                continue
            having = [r for r in runs if key in r.leaves]
            if having and self.follows(key, having) and not self.is_identity(key, having):
                yield key, site, having

    def moves(self, runs):
        """Whether any place looks at what follows sizes, or may be come to at some alone."""
        if self.has_cases():
            return True
        for key in self.seen(runs):
            site, having = self.site_of(key), [r for r in runs if key in r.leaves]
            if having and (site.text is None or self.follows(key, having)):
                return True
        return False

    def has_cases(self):
        return any(site.kind == "case" for site in self.host)

    def follows(self, key, having):
        first = having[0].leaves[key]
        return any(differ(a, b) for r in having[1:] for a, b in zip(r.leaves[key], first))

    def is_identity(self, key, having):
        """A comparison of two numbers that are always the same one: sizes that have to agree."""
        pairs = [r.operands.get(key) for r in having]
        return all(p is not None and p[0] == p[1] for p in pairs)

    # ---- sizes ----

    def ladder(self):
        """Sets of sizes near and far: one size after another, beside the others' own and beside
        small ones."""
        for i in self.free:
            own = self.own[i]
            most = max(4 * own, BUILT_MAX) if self.is_built(i) else LADDER_MAX
            steps = {1, 2, 3, own - 1, own + 1, own // 2, 2 * own, *(2 ** k for k in range(4, 23, 3)),
                     *(2 ** k + self.random.randrange(2 ** k) for k in range(2, 22, 2))}
            for value in sorted(v for v in steps if 1 <= v <= most):
                for others in (LADDER_MAX, 5, 2):
                    rest = [self.least(k, others) for k in range(len(self.own))]
                    values = [value if k == i else v for k, v in enumerate(rest)]
                    if self.elements(values) <= 1 << 26:
                        yield values
        yield from ([self.least(i, most) for i in range(len(self.own))] for most in (1, 2, 7, 64))
        # What an exception decides has no expression: the text's own numbers.
        for i, value in itertools.product(self.free, self.named if self.has_cases() else ()):
            yield [value if k == i else self.least(k, 5) for k in range(len(self.own))]
        for a, b in itertools.combinations(self.free[:3], 2):
            for values in (self.own, [self.least(i, 33) for i in range(len(self.own))]):
                yield [values[b] if k == a else v for k, v in enumerate(values)]
                yield [values[a] if k == b else values[b] if k == a else v for k, v in enumerate(values)]

    def least(self, i, most):
        """A size, where it is free no larger than that."""
        return min(self.own[i], most) if i in self.free else self.own[i]

    def is_built(self, i):
        return any(e[i] for part in ("init_args", "init_kwargs", "state") for e in exponents(self.template.get(part)))

    def at_stock(self):
        """The task's own sizes where the judged ones are others, beside as small ones as there
        are: as many turns of a loop as it has there."""
        changed = [i for i in self.free if self.stock[i] != self.own[i]]
        for some, others in itertools.product([changed, *([i] for i in changed)], (5, 2)):
            yield [self.stock[i] if i in some else self.least(i, others) for i in range(len(self.own))]

    def wholes(self):
        return [*self.ask["more"], self.own, *self.at_stock()]

    def elements(self, values):
        return sum(math.prod(form["tensor"]["shape"]) for form in tensors(filled(self.template["inputs"], values)))

    def drawn(self):
        for _ in range(DRAWN):
            yield [max(1, int(own * 2 ** self.random.uniform(-3, 2))) if i in self.free else own
                   for i, own in enumerate(self.own)]

    def behind(self, runs):
        """[(key, run)] of places that were come to with one result, and at
        no two different sizes."""
        found = {}
        for key, results in self.seen(runs).items():
            having = [r for r in runs if key in r.leaves]
            if len(results) == 1 and having and having[0].values and not self.follows(key, having):
                found.setdefault(tuple(having[0].values), (key, having[0]))
        return list(found.values())[:SCANNED_SITES]

    def along(self, key, run):
        """Other sets of sizes that the conditions in front of a place send there."""
        names, gates, found = names_of(self.module.__dict__), self.gates(key, run), []
        for values in self.scanned(run.values) if gates else ():
            if values != run.values and self.comes(gates, names, values):
                found.append(values)
            if len(found) == FOUND_MAX:
                break
        return sorted(found, key=self.elements)[:FLIPS_MAX]

    def beside(self, base):
        """Each size larger, the others as they are."""
        for i in self.free:
            yield [2 * v if k == i else v for k, v in enumerate(base)]

    def scanned(self, base):
        """Thousands of sets for an expression alone: each size through all small values and some
        large ones, then two that the text names, then several at once."""
        far = [2 ** k + d for k in range(12, 25) for d in (-1, 0, 1)]
        for i in self.free:
            for value in itertools.chain(range(1, SCANNED), far):
                yield [value if k == i else v for k, v in enumerate(base)]
        for pair in itertools.combinations(self.free, 2):
            for named in itertools.product(self.named, repeat=2):
                at = dict(zip(pair, named))
                yield [at.get(k, v) for k, v in enumerate(base)]
        for _ in range(SCANNED):
            yield [self.random.randrange(1, max(4 * own, 64)) if i in self.free else own
                   for i, own in enumerate(self.own)]

    def flips(self, key, site, having):
        """Sets of sizes at which a one-sided expression would give something else."""
        code, leaves = self.followed(key, site, having)
        if code is None:
            return []
        wanted, found, strayed = having[0].results[key][0], [], []
        # Around the task's own sizes, where those come to it; at sizes that other
        # conditions send elsewhere only where there are no more.
        at = [r.values for r in having if r.values is not None]
        base = self.own if not at or self.own in at else min(at, key=self.elements)
        names, gates = names_of(self.module.__dict__), self.gates(key, having[0])
        for values in self.scanned(base):
            try:
                result = eval(code, names, {n: f(values) for n, f in leaves.items()})
                if (bool(result) if site.kind == "way" else result) != wanted:
                    (found if self.comes(gates, names, values) else strayed).append(values)
            except Exception:
                continue
            if len(found) == FOUND_MAX:
                break
        found = found or strayed[:FOUND_MAX]
        if not found:
            found = list(itertools.islice(self.solved(key, site, having, base), FOUND_MAX))
        found.sort(key=self.elements)
        return found[:FLIPS_MAX]

    def gates(self, key, run):
        """[(code, {name: function of the sizes}, way)] of the conditions that sent this run to a
        place and others past it, as far as their expressions can be followed."""
        found, runs = [], [r for r in self.runs.values() if r]
        past = [r for r in runs if key not in r.leaves]
        for other, results in run.results.items() if past else ():
            site = self.site_of(other)
            if site.kind != "way" or not site.text or len(set(results)) != 1 or other == key:
                continue
            if any(r.results.get(other, results)[0] != results[0] for r in past):
                code, leaves = self.followed(other, site, [r for r in runs if other in r.leaves])
                found += [(code, leaves, results[0])] if code else []
        return found[:GATES_MAX]

    def comes(self, gates, names, values):
        """Whether all of these conditions go the way of their run at these sizes."""
        try:
            return all(bool(eval(code, names, {n: f(values) for n, f in leaves.items()})) is way
                       for code, leaves, way in gates)
        except Exception:
            return False

    def solved(self, key, site, having, base):
        """Sets of sizes at which the two sides of an equality meet, where two sizes have
        to agree for it: for each value of the one the other, as far as the difference
        rises by equal steps."""
        tree = ast.parse(site.text, mode="eval").body
        if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], (ast.Eq, ast.NotEq))):
            return
        sides = f"({ast.unparse(tree.left)}) - ({ast.unparse(tree.comparators[0])})"
        code, leaves = self.followed(key, tracer_sites.Site(site.line, "value", sides, site.leaves), having)
        names = names_of(self.module.__dict__)
        for (i, k), value in itertools.product(itertools.permutations(self.free, 2), range(1, SCANNED)):
            set_of = lambda n: [value if j == i else n if j == k else v for j, v in enumerate(base)]
            try:
                one, two = (eval(code, names, {n: f(set_of(size)) for n, f in leaves.items()}) for size in (1, 2))
                size = 1 - one / (two - one)
            except Exception:
                continue
            if size == int(size) and 1 <= size <= LADDER_MAX:
                yield set_of(int(size))

    def followed(self, key, site, having):
        """(code, {name: function of the sizes}) of a site's expression; names that follow no size
        are replaced by what they are bound to."""
        texts = list(site.leaves)
        values = {t: [r.leaves[key][i] for r in having] for i, t in enumerate(texts)}
        leaves = {}

        # A leaf is a function of the sizes by what it was at those that were tried; else what it is
        # bound to stands for it, and of a kernel's names the module's value.
        def leaf(text, depth):
            form = self.form(values.get(text), having) if text in values else None
            if form is None:
                binding = site.leaves.get(text)
                if binding is None and isinstance(key, tuple) and text in self.module.__dict__:
                    return ast.Name(text, ast.Load())     # what a kernel takes from its module
                if binding is None or depth == 0:
                    raise tracer_sites.Open
                return Inline(leaf, depth - 1).whole(binding)
            name = f"_leaf{texts.index(text)}"
            leaves[name] = form
            return ast.Name(name, ast.Load())

        # What does not follow from sizes at all leaves nothing to look for.
        try:
            tree = ast.Expression(Inline(leaf, tracer_sites.DEPTH).whole(site.text))
            return compile(ast.fix_missing_locations(tree), "site", "eval"), leaves
        except (tracer_sites.Open, SyntaxError, ValueError):
            return None, None

    def form(self, values, having):
        """A leaf as a function of the sizes: always the same, a product of sizes, or the next power
        of two above one; None."""
        first = values[0]
        if any(v is UNBOUND for v in values):
            return None
        if not any(differ(first, v) for v in values):
            return lambda sizes: first
        if all(isinstance(v, tuple) and len(v) == len(first) for v in values):
            parts = [self.form([v[i] for v in values], having) for i in range(len(first))]
            return None if None in parts else lambda sizes: tuple(part(sizes) for part in parts)
        known = [(r.values, v) for r, v in zip(having, values) if r.values is not None]
        if not known or not all(type(v) in (int, float) for _, v in known):
            return None
        count = range(len(self.own))
        for n in (1, 2, 3, 4):
            for chosen in itertools.combinations(count, n):
                base = math.prod(known[0][0][i] for i in chosen)
                for make in (lambda p, f=known[0][1] / base: p * f, tracer_sites.SHIMS["__next_power_of_2"]):
                    if all(make(math.prod(s[i] for i in chosen)) == v for s, v in known):
                        whole = type(known[0][1])
                        return lambda s, chosen=chosen, make=make: whole(make(math.prod(s[i] for i in chosen)))
        return None

    # ---- the answer ----

    def answer(self):
        self.module = tracer_candidate.load_candidate(self.job["source"], self.code)
        jobs = [self.job, *self.ask.get("variants", [])]
        judged = [self.run(values, job) for values, job in zip(self.ask["sizes"], jobs)]
        if self.template:
            judged += [self.run(values) for values in self.ask["more"]]
        if None in judged:
            raise RuntimeError("forward raises where it did not")
        stock = self.run(None, self.ask["stock"]) if self.ask.get("stock") else None
        others = self.others(judged) if self.template and judged else []
        known = self.seen(judged)
        musts = self.new(stock, known) if stock else set()
        return self.groups(others, known, {m for m in musts if self.is_must(m, others, known)}, stock)

    def others(self, judged):
        """Runs at other sizes."""
        found = [self.run([2 * v if k == i else v for k, v in enumerate(self.own)]) for i in self.free]
        found += [self.run(v) for v in self.at_stock()]
        if not self.moves([r for r in judged + found if r]):
            return self.sized(found)
        found += [self.run(v) for v in self.ladder()]
        runs = lambda: judged + [r for r in found if r]
        # A condition behind a condition is met where the first one was found.
        tried = set()
        for _ in range(ROUNDS):
            found += [self.run(v) for key, run in self.behind(runs())
                      for v in [*self.beside(run.values), *self.along(key, run)]]
            still = [site for site in self.open(runs()) if site[0] not in tried][:SCANNED_SITES]
            for key, site, having in still:
                tried.add(key)
                found += [self.run(v) for v in self.flips(key, site, having)]
            if not still:
                break
        if any(True for _ in self.open(runs())):
            found += [self.run(v) for v in self.drawn()]
        return self.sized(found)

    def sized(self, runs):
        return [r for r in runs if r and r.values is not None]

    def is_must(self, new, others, known):
        """Whether what is new at the task's own sizes has to be judged for them. A value that
        changes with sizes is no news unless it changes there alone, and what it is made of changed
        before."""
        key, _ = new
        site = self.site_of(key)
        return site.kind in ("way", "case") or site.kind == "value" and isinstance(key, int) and not any(
            (key, "other") in self.new(r, known) for r in others)

    def groups(self, others, known, musts, stock):
        """[{"line", "what", "stock", "sets", "force"}]: sets of sizes of which one has to be
        judged, best first; where it is for the task's own sizes, the results that sites have there,
        None where some site is none of the host's."""
        news = [(r, self.new(r, known)) for r in others if r.elements <= ELEMENTS_MAX]
        changed = lambda r: sum(a != b for a, b in zip(r.values, self.own))
        order = sorted((n for n in news if n[1]), key=lambda n: (changed(n[0]), n[0].elements))
        wanted, groups = set().union(*(new for _, new in order), musts), []
        for item in sorted(wanted, key=lambda item: (item not in musts, str(item))):
            if item not in wanted:
                continue
            taking = [r for r, new in order if item in new][:SETS_MAX]
            covered = next((new for r, new in order if taking and r is taking[0]), {item})
            groups.append({"line": self.site_of(item[0]).line, "what": str(item[1])[:40],
                           "stock": bool(covered & musts), "sets": [r.values for r in taking],
                           "force": forced(covered & musts, stock) if stock else None})
            wanted -= covered
        return groups[:GROUPS_MAX]


def forced(musts, stock):
    """{site: result at the task's own sizes}, or None. Which launches there are follows from the
    host's sites."""
    keys = {key for key, _ in musts if isinstance(key, int)}
    if any(key not in keys and key[0] != "launches" for key, _ in musts):
        return None
    if any(len(set(stock.results[k])) != 1 or not isinstance(stock.results[k][0], (bool, int, str)) for k in keys):
        return None
    return {str(k): stock.results[k][0] for k in keys} or None


class Inline(ast.NodeTransformer):
    """An expression with what stands for its leaves; Python's own names and those that it binds
    itself stay."""

    def __init__(self, leaf, depth):
        self.leaf, self.depth, self.bound = leaf, depth, BUILTIN_NAMES

    def whole(self, text):
        tree = ast.parse(text, mode="eval").body
        self.bound = BUILTIN_NAMES | tracer_sites.bound_in(tree)
        return self.visit(tree)

    def visit(self, node):
        if tracer_sites.is_leaf(node) and tracer_sites.root_of(node) not in self.bound:
            return self.leaf(ast.unparse(node), self.depth)
        if isinstance(node, ast.Call) and tracer_sites.is_method(node.func):
            node.func.value = self.visit(node.func.value)
            node.args, node.keywords = [self.visit(a) for a in node.args], [self.visit(w) for w in node.keywords]
            return node
        return self.generic_visit(node)


BUILTIN_NAMES = frozenset(dir(builtins)) | frozenset(tracer_sites.SHIMS)


def names_of(module):
    """What a site's expression is evaluated with: a module's names, and what stands for Triton's
    functions. Numbers that are wrapped for kernels are plain here, so that results are."""
    return {name: value.value if isinstance(value, triton.language.constexpr) else value
            for name, value in module.items()} | tracer_sites.SHIMS


def differ(a, b):
    """Whether a leaf is another, as far as a size could tell: tensors by their shapes, objects that
    are no values not at all."""
    a, b = (getattr(v, "__self__", v) for v in (a, b))       # of a tensor's method, the tensor
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape != b.shape
    if type(a) is not type(b):
        return True
    return isinstance(a, VALUES) and repr(a) != repr(b)


def numbers_of(tree):
    """The whole numbers that a text names and that a size may be, the first of them."""
    whole = lambda v: int(v) if isinstance(v, str) and v.isdecimal() and len(v) < 9 else v
    values = [whole(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    found = dict.fromkeys(v for v in values if type(v) is int and 1 < v < SCANNED)
    return list(found)[:NAMED_MAX]


def tensors(value):
    """The tensors in a job's description."""
    if isinstance(value, list):
        return [t for v in value for t in tensors(v)]
    if isinstance(value, dict):
        return [value] if "tensor" in value else [t for v in value.values() for t in tensors(v)]
    return []


def filled(form, values):
    """A template with numbers for sizes: {"of": [[factor, divisor, [exponent...]]...]} is a sum of
    products."""
    if isinstance(form, list):
        return [filled(v, values) for v in form]
    if isinstance(form, dict):
        if "of" in form:
            return sum(a * math.prod(v ** e for v, e in zip(values, powers)) // b for a, b, powers in form["of"])
        return {k: filled(v, values) for k, v in form.items()}
    return form


def exponents(form):
    """The exponents of all products in a template."""
    if isinstance(form, list):
        return [e for v in form for e in exponents(v)]
    if isinstance(form, dict):
        return [p[2] for p in form["of"]] if "of" in form else [e for v in form.values() for e in exponents(v)]
    return []


def probe(job):
    """The answer to {"probe": ...} as text."""
    with tracer_sites.deep():
        return answer_of(job)


def answer_of(job):
    text = tracer_sites.Text(job["source"])
    if not text.host and not any(k.sites for k in text.kernels.values()):
        return "[]"      # nothing in it could tell sizes apart
    probe = Probe(job, text)
    # As one trace, whose calls have many sizes.
    tracer_tensor.TRACER, tracer_driver.RECORDER, tracer_driver.PROBE = probe.tracing, probe.rec, probe.sites
    tracer_cuda.begin(probe.rec)
    try:
        with torch.no_grad(), probe.tracing.mode():
            return json.dumps(probe.answer())
    finally:
        tracer_driver.PROBE = None


def code_of(job):
    """Of a job whose host code has to go some ways; None: of its text."""
    if "force" in job:
        return tracer_sites.reporting(tracer_sites.Text(job["source"]).tree, Forced(job["force"]))
    return None
