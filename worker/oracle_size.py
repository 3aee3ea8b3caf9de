"""At which sizes a task is judged: its own where they fit into the memory and the time that a
verdict may take, smaller ones otherwise.

Benchmarks for GPUs have tensors of gigabytes. The batch is made smaller first, as far as two; then,
in halves, the largest of the other sizes; those of images and channels last. What a size is comes
from its name and from which dimensions of the inputs follow it. Nothing is timed: a walk over
shapes (PyTorch's meta device) counts bytes and operations, and nominal rates turn them into
seconds, so the same task has the same sizes on every machine."""
import ast
import contextlib
import operator
import re

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

import oracle_device
import oracle_rows
from oracle_faults import theirs
from oracle_pack import EXPECTED_BYTES_MAX, GIVEN_BYTES_MAX, Fault
from oracle_reference import Reference, flatten_outputs, named_tensors

# inputs, parameters and expected values of all trials together: they lie in memory at once
DATA_BYTES_MAX = 6 << 30
SPARE_BATCH = 4
# operations a second of one core
MATMUL_RATE, CONV_RATE, OTHER_CONV_RATE, DEPTHWISE_RATE, RNN_RATE = 80e9, 50e9, 20e9, 7e9, 20e9
BYTES_RATE, LAUNCH_S = 4e9, 1e-5
# a trial runs the reference once in its own precision and once in fp64, which takes twice as long
PASSES = 3
DATA_PASSES = 6                # making, copying and comparing the data
WALKS_MAX = 64
CONTENTS_MAX = 4 << 20         # bytes of inputs and parameters that are made to see what a forward weighs
TRIALS_MIN = 4                 # so many trials stay where time is short
TIERS = ("batch", "other", "image", "channel")
SMALLEST = {"batch": 2, "other": 8, "image": 8, "channel": 4}
BATCH_NAME = re.compile(r"batch|^n?bsz?$|^b$", re.I)
IMAGE_NAME = re.compile(r"height|width|depth|image|img|resolution|^[hwd]$", re.I)
CHANNEL_NAME = re.compile(r"channel|feature|hidden|embed|planes|filters|^c$|^c_?(in|out)$", re.I)
JUDGED_AT = re.compile(r"^# Judged at (.+)$", re.M)      # what a task may state itself: NAME=NUMBER, NAME=NUMBER
# no sizes
COUNT_NAME = re.compile(r"layers?$|heads?$|groups?$|kernel|stride|pad|dilat|step|iter|^k$|^(dim|axis)$", re.I)
WIDE = 64                      # a number of a constructor from which on it is taken for a width
SIZE_MAX = 1 << 31
ARITHMETIC = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv}


# ---- the numbers in a source ----

class Site:
    """One integer that may be a size: where it stands in the text, its value and what it is
    called."""

    def __init__(self, name, node, value):
        self.name, self.node, self.value, self.role, self.dimension = name, node, value, None, 0


def folded(node):
    """The value of an expression of integer literals, or None."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return None
    left, right = folded(node.left), folded(node.right)
    if left is None or right is None or isinstance(node.op, ast.FloorDiv) and right == 0:
        return None
    return ARITHMETIC[type(node.op)](left, right)


def numbers_in(name, node):
    """The sizes in one value: an integer, or the integers of a tuple or list."""
    value = folded(node)
    if value is not None:
        return [Site(name, node, value)] if 1 <= value <= SIZE_MAX else []
    if isinstance(node, (ast.Tuple, ast.List)):
        return [site for i, e in enumerate(node.elts) for site in numbers_in(f"{name}[{i}]", e)]
    return []


def sites_of(source, in_functions=True):
    """All integers that stand where sizes do: assignments at the top of the module and the bodies
    of get_inputs and get_init_inputs."""
    sites = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                sites += numbers_in(target.id, node.value)
            elif (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                  and len(target.elts) == len(node.value.elts)):
                for t, v in zip(target.elts, node.value.elts):
                    sites += numbers_in(t.id, v) if isinstance(t, ast.Name) else []
        elif in_functions and isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            sites += literals_in(node)
    return sites


def literals_in(function):
    """Integers in a function's body, the largest expressions only, named by what they are assigned
    or passed to where that is plain."""
    found = []

    def visit(node, name):
        value = folded(node)
        if value is not None:
            if 1 < value <= SIZE_MAX:
                found.append(Site(name or f"{function.name}:{node.lineno}:{node.col_offset}", node, value))
            return
        for field, child in ast.iter_fields(node):
            for c in child if isinstance(child, list) else [child]:
                if isinstance(c, ast.AST):
                    visit(c, c.arg if isinstance(c, ast.keyword) else node.targets[0].id
                          if isinstance(node, ast.Assign) and field == "value" and isinstance(node.targets[0],
                              ast.Name) else name if not isinstance(node, ast.stmt) else None)

    for statement in function.body:
        visit(statement, None)
    return found


def rewritten(source, sites, values):
    """The source with other numbers at some sites; lines stay where they are."""
    lines = [line.encode() for line in source.splitlines(True)]
    for site, value in sorted(zip(sites, values), key=lambda p: (p[0].node.lineno, p[0].node.col_offset), reverse=True):
        if value == site.value:
            continue
        n = site.node
        first, last = n.lineno - 1, n.end_lineno - 1
        tail = lines[last][n.end_col_offset:]
        lines[first] = (lines[first][:n.col_offset] + str(value).encode()
                        + (b"\n" * (last - first) if last > first else b"") + tail)
        for i in range(first + 1, last + 1):
            lines[i] = b""
    return b"".join(lines).decode()


# ---- the walk over shapes ----

class Walk(TorchDispatchMode):
    """Seconds and bytes of one forward, from the shapes of what it dispatches."""

    def __init__(self):
        super().__init__()
        self.seconds, self.largest, self.products = 0.0, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns):
            return out
        moved = sum(t.numel() * t.element_size() for t in pytree.tree_leaves((args, kwargs, out))
                    if isinstance(t, torch.Tensor))
        self.largest = max(self.largest, moved)
        self.seconds += LAUNCH_S + moved / BYTES_RATE
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            try:
                flops = int(formula(*args, **kwargs, out_val=out))
                self.products += flops
                self.seconds += flops / self.rate(func, args)
            except theirs():     # torch's formula has no answer
                pass
        return out

    def rate(self, func, args):
        if "conv" not in str(func):
            return MATMUL_RATE
        transposed, groups = (args[6], args[8]) if len(args) > 8 else (False, 1)
        if groups > 1:
            return DEPTHWISE_RATE
        return OTHER_CONV_RATE if transposed or args[1].dim() != 4 else CONV_RATE


class RecurrentShapes(TorchFunctionMode):
    """LSTM and GRU by their formulas: on meta tensors they would be walked step by step, thousands
    of operators."""

    def __init__(self, walk):
        super().__init__()
        self.walk = walk

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name not in ("lstm", "gru") or len(args) != 9:
            return func(*args, **(kwargs or {}))
        x, state, weights, _, layers, _, _, two_ways, batch_first = args
        if not isinstance(x, torch.Tensor) or isinstance(weights, torch.Tensor):
            return func(*args, **(kwargs or {}))      # packed sequences
        steps = x.shape[0] * x.shape[1] if x.dim() == 3 else x.shape[0]
        self.walk.seconds += 2 * steps * sum(w.numel() for w in weights) / RNN_RATE
        hidden = state[0] if name == "lstm" else state
        out = x.new_empty((*x.shape[:-1], hidden.shape[-1] * (2 if two_ways else 1)))
        return (out, *[torch.empty_like(s) for s in (state if name == "lstm" else [state])])


class Load:
    """What one trial at some sizes weighs."""

    def __init__(self, given, expected, seconds, largest):
        self.given, self.expected, self.seconds, self.largest = given, expected, seconds, largest


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def on_meta(source):
    """The contexts in which a source's tensors have shapes alone."""
    stack = contextlib.ExitStack()
    stack.enter_context(oracle_device.OneDevice("meta") if "cuda" in source else contextlib.nullcontext())
    stack.enter_context(torch.device("meta"))
    return stack


def without_contents(source, init_seed):
    """(reference, inputs), its model and they on the meta device. A constructor that reads values
    is run with contents first."""
    try:
        with on_meta(source):
            reference = Reference(source, init_seed)
            return reference, reference.inputs(0)
    except (NotImplementedError, RuntimeError):
        with oracle_device.OneDevice("cpu") if "cuda" in source else contextlib.nullcontext():
            reference = Reference(source, init_seed)
        with on_meta(source):
            reference.model = reference.model.to("meta")
            return reference, reference.inputs(0)


def bytes_given(model, inputs):
    return bytes_of(inputs.tensors()) + bytes_of([t for _, t in named_tensors(model)])


def walked(model, inputs):
    """The load of one forward, on whatever device its tensors are."""
    walk = Walk()
    with torch.no_grad(), walk, RecurrentShapes(walk):
        outputs = flatten_outputs(model(*inputs.args, **inputs.kwargs))
    given = bytes_given(model, inputs)
    expected = bytes_of(outputs) + sum(8 * t.numel() for t in outputs if t.is_floating_point())
    return Load(given, expected, PASSES * walk.seconds + DATA_PASSES * (given + expected) / BYTES_RATE, walk.largest)


def measure(source, init_seed):
    """The load of one trial. Raises what the reference raises without contents."""
    reference, inputs = without_contents(source, init_seed)
    with on_meta(source):
        return walked(reference.model, inputs)


def weigh(source, init_seed):
    """As measure; a reference that reads values (how long a sequence is) has contents, where they
    are few."""
    try:
        return measure(source, init_seed)
    except theirs():
        if bytes_given(*of_shapes(source, init_seed)) > CONTENTS_MAX:
            raise
    reference = Reference(source, init_seed)
    return walked(reference.model, reference.inputs(0))


def of_shapes(source, init_seed):
    reference, inputs = without_contents(source, init_seed)
    return reference.model, inputs


def input_shapes(source, init_seed):
    return [tuple(t.shape) for t in without_contents(source, init_seed)[1].tensors()]


def given_sizes(source, init_seed):
    """(shapes of the inputs, plain whole numbers among them)."""
    call = without_contents(source, init_seed)[1]
    return [tuple(t.shape) for t in call.tensors()], call.numbers()


def fitting(source, text, init_seed):
    """The text of other sizes, in which lists of whole numbers belong to them as they did in the
    source (oracle_rows.py). Raises Contradiction where the model's own lists do not."""
    if text == source or not oracle_rows.rows_of(source) and not oracle_rows.highs_of(source):
        return text
    try:
        before, after = given_sizes(source, init_seed), given_sizes(text, init_seed)
    except theirs():     # sizes that data decide follow them
        return text
    numbers, values = oracle_rows.changes(source, text, before, after)
    out = rewritten(text, numbers, values)
    if out != text:
        oracle_rows.changes(source, out, before, given_sizes(out, init_seed), True)
    return out


class Budget:
    """What all trials of a task may take."""

    def __init__(self, job):
        self.seconds = job.get("work_ms", 30000) / 1000
        self.memory = job.get("memory_bytes", 8 << 30)
        self.trials = len(job["trials"])
        self.is_spare = job.get("spare", False)     # values at the task's own sizes are judged elsewhere, on a GPU

    def why_not(self, load):
        """"" where the load fits; else what is too much."""
        if load.given > GIVEN_BYTES_MAX:
            return (f"inputs and parameters of one trial are {-(-load.given >> 20)} MiB, at most "
                    f"{GIVEN_BYTES_MAX >> 20} MiB are handed over")
        if load.expected > EXPECTED_BYTES_MAX:
            return (f"outputs of one trial, with their fp64 twins, are {-(-load.expected >> 20)} MiB, at most "
                    f"{EXPECTED_BYTES_MAX >> 20} MiB are handed over")
        if (load.given + load.expected) * self.trials > DATA_BYTES_MAX:
            return (f"the data of {self.trials} trials are {(load.given + load.expected) * self.trials >> 20} MiB, at "
                    f"most {DATA_BYTES_MAX >> 20} MiB are kept")
        if 4 * load.given + 3 * (load.largest + load.expected) > self.memory:
            return (f"the reference needs about {(4 * load.given + 3 * (load.largest + load.expected)) >> 20} MiB of "
                    f"{self.memory >> 20} MiB")
        if load.seconds * self.trials > self.seconds:
            return (f"{self.trials} trials of the reference take about {load.seconds * self.trials:.0f} s, "
                    f"{self.seconds:.0f} s are allowed")
        return ""

    def trials_of(self, load):
        """How many trials there is time for."""
        return max(TRIALS_MIN, min(self.trials, int(self.seconds / max(load.seconds, 1e-9))))


# ---- the search ----

def roles_set(source, init_seed, sites):
    """A role for each site: by its name, or by the dimensions of the inputs that follow it. Sites
    that nothing follows and that no name explains have none and stay as they are (strides, kernel
    sizes, numbers of groups)."""
    stock = input_shapes(source, init_seed)
    for i, site in enumerate(sites):
        if BATCH_NAME.search(site.name):
            site.role = "batch"
            continue
        try:
            other = input_shapes(rewritten(source, [site], [site.value * 2]), init_seed)
        except theirs():
            other = stock
        followers = {(len(a), d) for a, b in zip(stock, other) if len(a) == len(b)
                     for d in range(len(a)) if a[d] != b[d]}
        site.dimension = min([d for _, d in followers], default=9)
        site.role = role_of(site, followers, any(len(shape) >= 4 for shape in stock))


def role_of(site, followers, has_images):
    if COUNT_NAME.search(site.name):
        return None
    if not followers:
        is_width = site.value >= WIDE or site.value >= 16 and CHANNEL_NAME.search(site.name)
        return None if not is_width else "channel" if has_images else "other"
    if followers <= {(n, 0) for n in (3, 4, 5)}:
        return "batch"
    if IMAGE_NAME.search(site.name) or any(n >= 4 and d >= 2 for n, d in followers):
        return "image"
    if any(n >= 4 and d == 1 for n, d in followers) or CHANNEL_NAME.search(site.name):
        return "channel"
    return "other"


def half(value, smallest):
    return max(value // 2, min(value, smallest))


def smaller(sites):
    """Lists of values, ever smaller: tier by tier, in each the largest sizes first; equal sizes
    stay equal. For each tier a second way follows the first: all of its sizes halved together,
    which keeps ratios that a network may need."""
    values = [s.value for s in sites]
    for tier in TIERS:
        mine = [i for i, s in enumerate(sites) if s.role == tier]
        start = list(values)
        while mine:
            top = max(values[i] for i in mine)
            nxt = [half(v, SMALLEST[tier]) if i in mine and v == top else v for i, v in enumerate(values)]
            if nxt == values:
                break
            values = nxt
            yield list(values)
        # what is as large as the first of the tier may have to stay so (a batch that equals a
        # width)
        likes = [i for i, s in enumerate(sites) if s.role and mine and s.value == start[mine[0]]]
        for group in (mine if len(mine) > 1 else [], likes if likes != mine else []):
            yield from halved(start, group, SMALLEST[tier])
    if any(s.role == "batch" for s in sites):
        yield [1 if s.role == "batch" else s.value for s in sites]


def halved(values, group, smallest):
    """All of a group halved together, again and again."""
    while True:
        following = [half(v, smallest) if i in group else v for i, v in enumerate(values)]
        if following == values:
            return
        values = following
        yield values


def fit(source, init_seed, budget):
    """(source, {name: (stock, judged)}, trials): the sizes at which a task is judged and for how
    many trials there is time. A task may state them in a comment line, which is for sets whose
    costs matter at sizes far above those at which values need to be checked. A task whose shapes
    cannot be walked is judged as it is, and measured when its data are there."""
    stated = JUDGED_AT.search(source)
    if stated:
        return fit_stated(source, init_seed, budget, stated.group(1))
    # As it stands, where it fits.
    try:
        load = measure(source, init_seed)
    except theirs():
        return source, {}, budget.trials
    why = budget.why_not(load)
    if not why:
        return source, {}, budget.trials
    # Else smaller, step by step, until it does. The best so far is kept for when nothing fits all
    # trials.
    sites = sites_of(source)
    try:
        roles_set(source, init_seed, sites)
    except theirs():     # sites without a role stay as they are
        pass
    best, walks = None, 0
    for values in smaller(sites):
        walks += 1
        if walks > WALKS_MAX:
            break
        try:
            text = fitting(source, rewritten(source, sites, values), init_seed)
            now = measure(text, init_seed)
        except theirs():
            continue
        why = budget.why_not(now)
        if not why:
            text, values = spared(source, init_seed, sites, values) if budget.is_spare else (text, values)
            return text, changes(sites, values), budget.trials
        if possible(now, budget) and (best is None or now.seconds < best[0].seconds):
            best = (now, text, values)
    # No size leaves time for all trials: the quickest one, with fewer.
    if best is None and possible(load, budget):
        best = (load, source, [s.value for s in sites])
    if best is None:
        raise Fault("task-too-large",
                    f"{why}; no smaller sizes were found under which the reference runs: make the task's sizes smaller")
    return best[1], changes(sites, best[2]), budget.trials_of(best[0])


def spared(source, init_seed, sites, values):
    """Of sizes that fit, with a smaller batch: of a task whose own sizes a GPU judges, the others
    say what memory a kernel touches and in which order, and a few rows say that as well as many."""
    text = fitting(source, rewritten(source, sites, values), init_seed)
    while True:
        following = [v if s.role != "batch" or v // 2 < SPARE_BATCH else v // 2 for s, v in zip(sites, values)]
        if following == values:
            return text, values
        try:
            other = fitting(source, rewritten(source, sites, following), init_seed)
            measure(other, init_seed)
        except theirs():
            return text, values
        text, values = other, following


def fit_stated(source, init_seed, budget, text):
    """As fit, for a task that states its sizes."""
    sites = sites_of(source, in_functions=False)
    numbers = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if (not value.strip().isdigit() or not 1 <= int(value) <= SIZE_MAX
                or name.strip() not in {s.name for s in sites}):
            raise Fault("task-broken",
                        f"judged at {part.strip()[:80]}: expected NAME=NUMBER with the name of a number at the top of "
                        f"the module")
        numbers[name.strip()] = int(value)
    values = [numbers.get(s.name, s.value) for s in sites]
    smaller_source = fitting(source, rewritten(source, sites, values), init_seed)
    why = budget.why_not(measure(smaller_source, init_seed))
    if why:
        raise Fault("task-too-large", f"at the sizes that the task states {why}: state smaller ones")
    return smaller_source, changes(sites, values), budget.trials


def possible(load, budget):
    """Whether a load fits into memory, with as few trials as there may be, and into the time that
    is there in all."""
    few = Budget({"trials": [None] * TRIALS_MIN, "memory_bytes": budget.memory, "work_ms": 5000 * budget.seconds})
    return not few.why_not(load)


def changes(sites, values):
    out = {}
    for site, value in zip(sites, values):
        if value != site.value:
            out[site.name] = (site.value, value)
    return out
