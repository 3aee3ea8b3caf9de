"""Plants one error at a time in honest kernels and looks whether the verifier notices: make
mutants.

A mutant is one edit inside a @triton.jit function of a candidate under tests/known_good: an
operator turned, a constant moved, a mask taken away, widened, narrowed or another access's, an
index shifted, a dtype changed, an order of operands, axes, dimensions or statements turned, a
statement left out, an argument or a value taken for another one, an atomic weakened or made a load
and a store, a loop that ends a block early. (seed, number) decides all of it: cases come in turns,
then a family is drawn, then a place in it. A mutant that Triton refuses to trace or that no
compiler takes is no mutant: it is counted apart, and the next number is drawn in its place. Each is
judged with the task of its case; what is not found to be wrong survives.

A survivor whose kernels give the same PTX as the original's (comments, places and names aside),
with the same launches, changes nothing. So does one that has an entry in
tests/mutants/equivalent.json, which says why no input tells it from the original and how many
people have read that. One that `hone prove` proves to be the reference over the real numbers
changes nothing at the task's own sizes; other sizes, rounding and the order of accesses are no part
of that, so changed dtypes and atomics are not asked about, and both percentages are printed, with
proofs counted and without. The rest is printed: each is a hole in the verifier. Beside hone's
verdict stands that of KernelBench's own check on the same mutant (torch.allclose on stock inputs,
under the first of its five seeds), where the vm could run the mutant up to its outputs.

usage: build/venv/bin/python tools/kernel_mutants.py [--count 1500] [--seed 1] [--out build/mutants]
           [--threads 2] [--cases a,b] [--again] [--table]
       build/venv/bin/python tools/kernel_mutants.py --show N [--seed 1]   prints mutant N as a diff
--again judges the survivors of a run anew, under another seed of hidden inputs too with --hidden;
--table prints the table of what a run has found so far.
"""
import argparse, ast, concurrent.futures, difflib, hashlib, json, os, random, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOOD = f"{ROOT}/tests/known_good"
EQUIVALENT = f"{ROOT}/tests/mutants/equivalent.json"
FAMILIES = ("operator", "constant", "mask", "index", "dtype", "order", "statement", "name", "edge", "atomic")
UNPROVED = ("dtype", "atomic")
SWAPS = {ast.Add: ["-"], ast.Sub: ["+"], ast.Mult: ["+"], ast.Div: ["*"], ast.FloorDiv: ["%", "*"], ast.Mod: ["//"],
         ast.BitAnd: ["|"], ast.BitOr: ["&"], ast.BitXor: ["|"], ast.LShift: [">>"], ast.RShift: ["<<"]}
COMPARES = {ast.Lt: ["<=", ">"], ast.LtE: ["<", ">="], ast.Gt: [">=", "<"], ast.GtE: [">", "<="], ast.Eq: ["!="],
            ast.NotEq: ["=="]}
POINTED = ("load", "store", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg", "make_block_ptr",
           "make_tensor_descriptor")
REDUCTIONS = ("max", "min", "sum", "argmax", "argmin", "cumsum", "sort", "reduce", "associative_scan", "softmax",
              "xor_sum")
HINTS = ("other", "num_stages", "num_warps", "loop_unroll_factor", "eviction_policy", "cache_modifier", "axis")
# Functions that take the same arguments.
CALLS = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "sum": "max", "exp": "exp2",
         "exp2": "exp", "log": "log2", "log2": "log", "sqrt": "exp", "rsqrt": "sqrt", "sin": "cos", "cos": "sin",
         "abs": "exp", "floor": "ceil", "ceil": "floor", "argmax": "argmin", "argmin": "argmax", "tanh": "erf",
         "erf": "tanh", "sigmoid": "exp", "atomic_add": "atomic_max", "cumsum": "cumprod", "cumprod": "cumsum",
         "cdiv": "minimum", "zeros_like": "ones_like"}
DTYPES = {"float32": ["float16", "bfloat16"], "float16": ["bfloat16"], "bfloat16": ["float16"], "float64": ["float32"],
          "int32": ["int16", "uint8"], "int64": ["int32", "int16"], "int8": ["uint8"], "uint8": ["int8"],
          "int16": ["int8"], "uint32": ["uint16"]}
TURNED = {":,None": "None, :", "None,:": ":, None"}
WEAKER = {"acq_rel": "relaxed", "acquire": "relaxed", "release": "relaxed", "gpu": "cta", "sys": "cta"}


def say(text):
    print(text, flush=True)


# ---- places ----

class Text:
    """A source whose pieces are known by syntax nodes."""

    def __init__(self, source):
        self.source, self.tree = source, ast.parse(source)
        data, self.starts = source.encode(), [0]
        for line in data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.data = data

    def span(self, n):
        return self.starts[n.lineno - 1] + n.col_offset, self.starts[n.end_lineno - 1] + n.end_col_offset

    def of(self, n):
        a, b = self.span(n)
        return self.data[a:b].decode()

    def kernels(self):
        return [f for f in ast.walk(self.tree)
                if isinstance(f, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in f.decorator_list)]


def name_of(call):
    return (call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name)
            else "")


def edits(text):
    """{family: [(begin, end, replacement), ...]}, spans in bytes. What stands in a call's keywords
    (num_stages and the like) and in annotations is code too."""
    found = {f: [] for f in FAMILIES}
    for kernel in text.kernels():
        parents = {}
        for node in ast.walk(kernel):
            for child in ast.iter_child_nodes(node):
                parents[child] = node
        body = [s for s in kernel.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        for statement in body:
            for node in ast.walk(statement):
                edits_of(text, node, parents, kernel, found)
        statements(text, kernel, found)
        other_masks(text, kernel, found)
        names(text, kernel, found)
    return {f: list(dict.fromkeys(e)) for f, e in found.items() if e}


def edits_of(text, node, parents, kernel, found):
    span = text.span(node) if hasattr(node, "lineno") else None
    if isinstance(node, ast.BinOp):
        left, right = text.of(node.left), text.of(node.right)
        between = (text.span(node.left)[1], text.span(node.right)[0])
        inside = text.data[between[0]:between[1]].decode()
        sign = re.search(r"\*\*|//|<<|>>|[-+*/%&|^@]", inside)
        for other in SWAPS.get(type(node.op), []):
            if sign:
                at = between[0] + len(inside[:sign.start()].encode())
                found["operator"].append((at, at + len(sign[0].encode()), other))
        if type(node.op) in (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod) and left != right:
            found["order"].append((*span, f"(({right}) {sign[0] if sign else '-'} ({left}))"))
    elif isinstance(node, ast.AugAssign) and type(node.op) in (ast.Add, ast.Mult, ast.Sub):
        found["operator"].append(
            (*span, f"{text.of(node.target)} {'-=' if isinstance(node.op, ast.Add) else '+='} {text.of(node.value)}"))
        found["operator"].append((*span, f"{text.of(node.target)} = {text.of(node.value)}"))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = text.of(node.left), text.of(node.comparators[0])
        for other in COMPARES.get(type(node.ops[0]), []):
            found["operator"].append((*span, f"({left} {other} {right})"))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        found["operator"].append((*span, text.of(node.operand)))
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and not is_hint(node, parents):
        constant_edits(node.value, span, found)
    elif isinstance(node, ast.Call):
        call_edits(text, node, span, found, is_reduced(text, node, parents, kernel))
    elif (isinstance(node, ast.For) and isinstance(node.iter, ast.Call)
          and name_of(node.iter) in ("range", "static_range")):
        loop_edits(text, node.iter, found)
    elif (isinstance(node, ast.Subscript)
          and text.data[slice(*text.span(node.slice))].decode().strip("()").replace(" ", "") in TURNED):
        found["order"].append((*text.span(node.slice), TURNED[text.of(node.slice).strip("()").replace(" ", "")]))
    elif isinstance(node, ast.Attribute) and node.attr in DTYPES and isinstance(node.value, ast.Name):
        found["dtype"] += [(*span, f"{node.value.id}.{other}") for other in DTYPES[node.attr]]


def is_hint(node, parents):
    """Whether a constant stands in a keyword that no result depends on, or that has edits of its
    own."""
    while node in parents and not isinstance(node, ast.stmt):
        node = parents[node]
        if isinstance(node, ast.JoinedStr) or isinstance(node, ast.keyword) and node.arg in HINTS:
            return True
    return False


def is_reduced(text, node, parents, kernel):
    """Whether what a load gives is reduced as it is: then its masked lanes count."""
    reductions = [c for c in ast.walk(kernel) if isinstance(c, ast.Call) and name_of(c) in REDUCTIONS and c.args]
    while node in parents and not isinstance(node, ast.stmt):
        node = parents[node]
        if node in reductions:
            return True
    names = {n.id for t in getattr(node, "targets", []) for n in ast.walk(t) if isinstance(n, ast.Name)}
    return any(isinstance(a, ast.Name) and a.id in names for c in reductions for a in c.args)


def constant_edits(value, span, found):
    if isinstance(value, int):
        others = [value + 1] + ([value - 1] if value > 0 else [])
    else:
        others = [value * 2, value * 0.99, -value] if value else [1.0, 1e-3]
    found["constant"] += [(*span, f"({v!r})" if v < 0 else repr(v)) for v in others]


def call_edits(text, node, span, found, is_reduced):
    name = name_of(node)
    if (name in CALLS and (not isinstance(node.func, ast.Attribute)
                           or text.of(node.func.value) in ("tl", "tl.math", "libdevice", "math"))):
        a, b = text.span(node.func)
        found["operator"].append((a, b, text.of(node.func)[:-len(name)] + CALLS[name]))
    keywords = {k.arg: k for k in node.keywords}
    everything = ([text.of(a) for a in node.args]
                  + [f"{k.arg}={text.of(k.value)}" if k.arg else f"**{text.of(k.value)}" for k in node.keywords])
    if "mask" in keywords:
        mask = keywords["mask"].value
        found["mask"].append((*text.span(mask), "None") if "other" not in keywords
                             else (*text.span(mask), f"({text.of(mask)}) | True"))
        for part in ([mask.left, mask.right] if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd)
                     else []):
            found["mask"].append((*text.span(mask), text.of(part)))
    if "other" in keywords and is_reduced:
        found["mask"] += [(*text.span(keywords["other"].value), v)
                          for v in ("0.0", "1.0") if v != text.of(keywords["other"].value)]
    if name.startswith("atomic_") and node.args:
        atomic_edits(text, node, name, keywords, everything, span, found)
    if name == "cdiv" and len(node.args) == 2:
        found["edge"].append((*span, f"(({text.of(node.args[0])}) // ({text.of(node.args[1])}))"))
    if "boundary_check" in keywords:
        check = keywords["boundary_check"].value
        if isinstance(check, ast.Tuple):
            found["mask"] += [(*text.span(check), f"({e.value},)")
                              for e in check.elts if isinstance(e, ast.Constant) and len(check.elts) > 1]
        found["mask"].append((*text.span(check), "()"))
    if name == "trans" and len(node.args) == 1:
        found["order"].append((*span, text.of(node.args[0])))
    if name in ("load", "store", "atomic_add") and node.args:
        pointer = text.of(node.args[0])
        found["index"] += [(*text.span(node.args[0]), f"({pointer}) {by}") for by in ("+ 1", "- 1")]
    if name == "program_id" and node.args and isinstance(node.args[0], ast.Constant):
        found["index"].append((*text.span(node.args[0]), "1" if node.args[0].value == 0 else "0"))
    if name == "arange" and len(node.args) == 2:
        found["index"] += [(*span, f"({text.of(node)} + 1)"), (*span, f"({text.of(node)} // 2)")]
    if name in ("where", "dot", "maximum", "minimum", "fma") and len(node.args) > 1:
        swapped = [1, 0] if name != "where" else [0, 2, 1]
        order = swapped + list(range(len(swapped), len(everything)))
        if len(node.args) >= len(swapped) and name not in ("maximum", "minimum"):
            found["order"].append((*span, f"{text.of(node.func)}({', '.join(everything[i] for i in order)})"))
    if name == "to" and isinstance(node.func, ast.Attribute):
        found["dtype"].append((*span, text.of(node.func.value)))
    if "input_precision" in keywords:
        found["dtype"].append((*text.span(keywords["input_precision"].value), '"tf32"'))
    by_place = name in REDUCTIONS or name == "expand_dims"
    axis = keywords["axis"].value if "axis" in keywords else node.args[1] if by_place and len(node.args) > 1 else None
    if isinstance(axis, ast.Constant) and axis.value in (0, 1):
        found["order"].append((*text.span(axis), str(1 - axis.value)))


def loop_edits(text, loop, found):
    """A loop that leaves its first or its last turn out, or takes one more."""
    arguments = [text.of(a) for a in loop.args]
    first, end = ("0", arguments[0]) if len(arguments) == 1 else arguments[:2]
    step = arguments[2] if len(arguments) > 2 else "1"
    for a, b in ((first, f"({end}) - ({step})"), (first, f"({end}) + ({step})"), (f"({first}) + ({step})", end)):
        found["edge"].append((*text.span(loop),
                              f"{text.of(loop.func)}({', '.join([a, b, *([step] if len(arguments) > 2 else [])])})"))


def atomic_edits(text, node, name, keywords, everything, span, found):
    """An atomic that promises less, or that is a load and a store."""
    for key in ("sem", "scope"):
        if key in keywords and isinstance(keywords[key].value, ast.Constant) and keywords[key].value.value in WEAKER:
            found["atomic"].append((*text.span(keywords[key].value), repr(WEAKER[keywords[key].value.value])))
    for key, weaker in (("sem", "relaxed"), ("scope", "cta")):
        if key not in keywords:
            found["atomic"].append((*span, f"{text.of(node.func)}({', '.join(everything)}, {key}=\"{weaker}\")"))
    if name in ("atomic_add", "atomic_max", "atomic_min") and len(node.args) >= 2:
        pointer, value = text.of(node.args[0]), text.of(node.args[1])
        mask = f", mask={text.of(keywords['mask'].value)}" if "mask" in keywords else ""
        both = {"atomic_add": "{} + ({})", "atomic_max": "tl.maximum({}, {})",
                "atomic_min": "tl.minimum({}, {})"}[name].format(f"tl.load({pointer}{mask})", value)
        found["atomic"].append((*span, f"tl.store({pointer}, {both}{mask})"))


def other_masks(text, kernel, found):
    """Each access with the masks of the other ones, and with the next value of an edge."""
    masks = [k.value for c in ast.walk(kernel) if isinstance(c, ast.Call) for k in c.keywords if k.arg == "mask"]
    for mask in masks:
        found["mask"] += [(*text.span(mask), other) for other in sorted({text.of(m) for m in masks})
                          if other != text.of(mask)]
        for node in ast.walk(mask):
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Lt, ast.LtE)):
                a, b = text.span(node.comparators[0])
                found["edge"] += [(a, b, f"({text.of(node.comparators[0])} {by})") for by in ("+ 1", "- 1")]


def names(text, kernel, found):
    """A value taken for another: names that are read where numbers are, each replaced by its
    neighbours among the function's arguments of the same kind, or by a local that was written
    before it."""
    arguments = [a.arg for a in kernel.args.posonlyargs + kernel.args.args]
    pointers = {n.id for c in ast.walk(kernel) if isinstance(c, ast.Call) and name_of(c) in POINTED and c.args
                for n in ast.walk(c.args[0]) if isinstance(n, ast.Name) and n.id in arguments and is_base(c.args[0], n)}
    locals_at = {}
    for n in ast.walk(kernel):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            locals_at.setdefault(n.id, n.lineno)
    for n in ast.walk(kernel):
        if not (isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.lineno >= kernel.body[0].lineno):
            continue
        if n.id in arguments:
            others = [a for a in arguments if a != n.id and (a in pointers) == (n.id in pointers)]
        else:
            others = [a for a, line in locals_at.items() if a != n.id and n.id in locals_at and line < n.lineno]
        found["name"] += [(*text.span(n), other) for other in others]


def is_base(pointer, name):
    """Whether a name is the base of an address: the leftmost of its sums."""
    while isinstance(pointer, ast.BinOp):
        pointer = pointer.left
    return pointer is name


def meet(first, second):
    """Whether one of two statements writes what the other one uses."""
    used = [{n.id for n in ast.walk(s) if isinstance(n, ast.Name)} for s in (first, second)]
    written = [{n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
               for s in (first, second)]
    return bool(written[0] & used[1] or written[1] & used[0])


def statements(text, kernel, found):
    """Statements left out, and neighbours that change places."""
    for node in ast.walk(kernel):
        for block in (getattr(node, f, None) for f in ("body", "orelse")):
            if not isinstance(block, list):
                continue
            for first, second in zip(block, block[1:] + [None]):
                if (isinstance(first, (ast.Expr, ast.AugAssign, ast.Return, ast.If, ast.For))
                        and not isinstance(getattr(first, "value", None), ast.Constant)):
                    found["statement"].append((*text.span(first), "pass"))
                elif (isinstance(first, ast.Assign) and any(
                        isinstance(n, ast.Name) and n.id == text.of(first.targets[0]) for n in ast.walk(first.value))):
                    # it changes a value that is there already
                    found["statement"].append((*text.span(first), "pass"))
                simple = (ast.Assign, ast.AugAssign, ast.Expr)
                if (isinstance(first, simple) and isinstance(second, simple) and first.end_lineno < second.lineno
                        and meet(first, second)):
                    a, b = text.span(first)[0], text.span(second)[1]
                    indent = "\n" + " " * first.col_offset
                    found["order"].append((a, b, text.of(second) + indent + text.of(first)))


# ---- drawing ----

def cases_of(only):
    names = sorted(n for n in os.listdir(GOOD) if os.path.exists(f"{GOOD}/{n}/candidate.py"))
    return [n for n in names if not only or n in only]


def mutant(number, seed, cases, only="", kept={}):
    """(case, family, source, mutated source, line) of one number; None where its case has no place
    of that kind."""
    r = random.Random(f"{seed}/{number}")
    case = cases[(number + int(hashlib.sha256(str(seed).encode()).hexdigest(), 16)) % len(cases)]
    if case not in kept:
        text = Text(open(f"{GOOD}/{case}/candidate.py").read())
        kept[case] = (text, edits(text))
    text, places = kept[case]
    if not places:
        return None
    family = only or r.choice(sorted(places))
    if family not in places:
        return None
    begin, end, new = r.choice(places[family])
    data = text.data[:begin] + new.encode() + text.data[end:]
    try:
        source = data.decode()
        if ast.dump(ast.parse(source)) == ast.dump(text.tree):
            return None
    except SyntaxError:
        return None
    return case, family, text.source, source, text.data[:begin].count(b"\n") + 1


def drawn(seed, cases, only=""):
    """Mutants in the order of their numbers, each source once."""
    seen, number, misses = set(), 0, 0
    while misses < 20000:
        m = mutant(number, seed, cases, only)
        key = m and hashlib.sha256((m[0] + m[3]).encode()).hexdigest()
        misses = misses + 1 if key in seen or m is None else 0
        if m and key not in seen:
            seen.add(key)
            yield number, m
        number += 1


# ---- judging ----

def grade(lines, threads, hidden_seed, out):
    """Verdicts of a list, appended to a file as they come. Paths in lists count from the
    repository's root, so that a list can be graded elsewhere."""
    p = subprocess.Popen([f"{ROOT}/build/release/bench/verify/grade_list", str(threads), str(hidden_seed)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    p.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
    p.stdin.close()
    with open(out, "a") as log:
        for line in p.stdout:
            if "verdict" not in json.loads(line):     # it could not be judged, and may be later
                print(f"kernel_mutants: {line.rstrip()}", file=sys.stderr)
                continue
            log.write(line)
            log.flush()
    if p.wait():
        sys.exit(f"kernel_mutants: grade_list ended with {p.returncode}")


def is_stillborn(v):
    """No compiler takes it: no mutant."""
    return (v["verdict"] == "invalid" and v["stage"] in ("format", "static", "trace", "compile")
            and v["reason"] not in ("nondeterministic", "data-dependent"))


def results(out):
    """The last verdict of each mutant of a run."""
    last = {}
    if os.path.exists(f"{out}/verdicts.jsonl"):
        for line in open(f"{out}/verdicts.jsonl"):
            o = json.loads(line)
            last[o["number"]] = o
    return last


def batch(o, source, known, count):
    """The next mutants that have no verdict, as lines of a list; their texts are written."""
    os.makedirs(f"{o.out}/sources", exist_ok=True)
    lines, folder = [], os.path.relpath(o.out, ROOT)
    for number, (case, family, _, text, line) in source:
        if number in known:
            continue
        with open(f"{o.out}/sources/{number}.py", "w") as f:
            f.write(text)
        lines.append({"id": str(number), "number": number, "case": case, "family": family, "line": line,
                      "task": f"tests/known_good/{case}/task.py", "candidate": f"{folder}/sources/{number}.py"})
        if len(lines) >= count:
            break
    return lines


def run(o, cases):
    """Batches until `count` mutants that compile were judged."""
    source = drawn(o.seed, cases, o.family)
    known = results(o.out)
    alive = sum(not is_stillborn(r["verdict"]) for r in known.values())
    while alive < o.count:
        lines = batch(o, source, known, min(250, max(8, (o.count - alive) * 5 // 4)))
        if not lines:
            say(f"only {alive} mutants exist under these cases and this seed")
            break
        grade(lines, o.threads, o.hidden, f"{o.out}/verdicts.jsonl")
        known = results(o.out)
        alive = sum(not is_stillborn(r["verdict"]) for r in known.values())
        say(f"{alive} mutants, {sum(r['verdict']['verdict'] == 'genuine' for r in known.values())} survive so far")


def again(o):
    lines = [{k: v for k, v in r.items() if k != "verdict"}
             for r in results(o.out).values() if r["verdict"]["verdict"] in ("genuine", "infra")]
    same = same_ptx([r for r in results(o.out).values() if r["verdict"]["verdict"] == "genuine"], o.out)
    lines = [line for line in lines if line["number"] not in same]
    grade(lines, o.threads, o.hidden, f"{o.out}/verdicts.jsonl")


# ---- equivalence ----

def bare(ptx):
    """PTX without comments, places in the source and sections for debuggers."""
    ptx = re.sub(r"(?ms)^\s*\.section\s+\.debug.*?^\s*\}", "", ptx)
    lines = (re.sub(r"//.*", "", line).strip() for line in ptx.splitlines())
    return "\n".join(line for line in lines if line and not re.match(r"\.(loc|file)\b|\$L__(tmp|func|info)\w*:", line))


class Compiler:
    """What a candidate launches, as PTX, by the workers that the verifier uses."""

    def __init__(self):
        sys.path.insert(0, f"{ROOT}/tests/tape")
        import zygote_client
        self.client, self.known = zygote_client, {}
        self.tracer, self.compiler = zygote_client.Zygote("tracer"), zygote_client.Zygote("compile")

    def launches(self, task, path):
        """[(grid, PTX), ...]; None where the task's form is not one that a test client writes, or
        nothing is launched."""
        if (task, path) not in self.known:
            try:
                tape = json.loads(self.tracer.result(self.client.task_job(task, open(path).read()))["tape"])
                texts = [self.ptx(k) for k in tape["kernels"]]
                self.known[task, path] = [(r["grid"], texts[r["kernel"]]) for r in tape["rows"] if r["op"] == "launch"]
            except Exception:
                self.known[task, path] = None
        return self.known[task, path]

    def ptx(self, kernel):
        job = {k: v for k, v in kernel.items() if k not in ("name", "configs", "source", "sha256")}
        return bare(self.compiler.result(dict(job, arch=90, shared_bytes=232448, want_ptx=True))["ptx"])

    def is_same(self, r):
        mine, original = (self.launches(f"{ROOT}/{r['task']}", path)
                          for path in (f"{ROOT}/{r['candidate']}", f"{GOOD}/{r['case']}/candidate.py"))
        return bool(mine) and mine == original

    def close(self):
        self.tracer.close()
        self.compiler.close()


def same_ptx(survivors, out):
    """The numbers of the survivors whose kernels and launches are those of their originals. What
    was found once is kept beside the verdicts."""
    path = f"{out}/ptx.json"
    known = {int(k): v for k, v in json.load(open(path)).items()} if os.path.exists(path) else {}
    left = [r for r in survivors if r["number"] not in known]
    compiler = Compiler() if left else None
    for r in left:
        known[r["number"]] = compiler.is_same(r)
        with open(path, "w") as f:
            json.dump(known, f)
    if compiler:
        compiler.close()
    return {r["number"] for r in survivors if known[r["number"]]}


def proved(survivors, out, threads):
    """The numbers of the survivors that `hone prove` proves. What was found once is kept beside
    the verdicts."""
    path = f"{out}/proofs.json"
    known = {int(k): v for k, v in json.load(open(path)).items()} if os.path.exists(path) else {}
    left = [r for r in survivors if r["number"] not in known and r["family"] not in UNPROVED]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for r, answer in zip(left, pool.map(prove, left)):
            known[r["number"]] = answer
    with open(path, "w") as f:
        json.dump(known, f)
    return {r["number"] for r in survivors if known.get(r["number"]) == "proved"}


def prove(r):
    p = subprocess.run([f"{ROOT}/build/release/hone", "prove", "--json", "--seed", "1", "--task", f"{ROOT}/{r['task']}",
                        "--candidate", f"{ROOT}/{r['candidate']}"], capture_output=True, text=True)
    return json.loads(p.stdout)["answer"] if p.stdout.startswith("{") else "error"


def written(r, arguments):
    """The written argument for a survivor: found by its case and by what it changes into what, so
    that it stays true under other seeds, and speaks of no other place of the case."""
    edit = changed(r)
    return next((a for a in arguments if a["case"] == r["case"] and (a["was"], a["changed"]) == edit), None)


def changed(r):
    """The lines of the original that a mutant does not have, and those that it has instead."""
    old, new = (open(f"{GOOD}/{r['case']}/candidate.py").read().splitlines(),
                open(f"{ROOT}/{r['candidate']}").read().splitlines())
    lines = list(difflib.ndiff(old, new))
    return tuple([d[2:].strip() for d in lines if d.startswith(sign)] for sign in ("- ", "+ "))


def judged(o):
    """(mutants that compile, how many do not): each mutant has "how": the reason why it was killed,
    what shows that it changes nothing, "survived" or "infra"."""
    known = list(results(o.out).values())
    mutants = [r for r in known if not is_stillborn(r["verdict"])]
    survivors = [r for r in mutants if r["verdict"]["verdict"] == "genuine"]
    arguments = json.load(open(EQUIVALENT)) if os.path.exists(EQUIVALENT) else []
    same = same_ptx(survivors, o.out) if survivors else set()
    proofs = proved([r for r in survivors if r["number"] not in same and not written(r, arguments)], o.out, o.threads)
    for r in mutants:
        v, argument = r["verdict"], None
        if v["verdict"] == "genuine":
            argument = written(r, arguments)
            r["how"] = ("equal PTX" if r["number"] in same else "argument" if argument else "proof"
                        if r["number"] in proofs else "survived")
            r["readers"] = argument["readers"] if argument else 0
        else:
            r["how"] = "infra" if v["verdict"] == "infra" else f"{v['verdict']}/{v['reason']}"
    return mutants, len(known) - len(mutants)


SHOWN = ("equal PTX", "proof", "argument")


def counts(mine):
    """Of a list of mutants: killed, and what KernelBench's check says of those."""
    killed = [r for r in mine if "/" in r["how"]]
    says = [r["verdict"]["kernelbench"]["correctness"] for r in killed]
    return len(killed), *(sum(k is what for k in says) for what in (True, False, None))


def table(o):
    mutants, stillborn = judged(o)
    say(f"seed {o.seed}, hidden inputs of seed {o.hidden}: {len(mutants)} mutants of "
        f"{len({r['case'] for r in mutants})} kernels' candidates; "
        f"{stillborn} more were no mutants (Triton or ptxas refuse them)\n")
    say("| family | mutants | equal PTX | proved | written argument | killed | survive | KernelBench's check passes "
        "of the killed | fails | not reached |")
    say("|---|---|---|---|---|---|---|---|---|---|")
    for family in FAMILIES + ("all",):
        mine = [r for r in mutants if family in ("all", r["family"])]
        if not mine:
            continue
        how = [sum(r["how"] == name for r in mine) for name in SHOWN]
        killed, *says = counts(mine)
        say("| " + " | ".join(str(x) for x in [family, len(mine), *how, killed,
                                               sum(r["how"] == "survived" for r in mine), *says]) + " |")
    say("\n| killed as | mutants | KernelBench's check passes | fails | not reached |")
    say("|---|---|---|---|---|")
    for reason in sorted({r["how"] for r in mutants if "/" in r["how"]},
                         key=lambda h: -sum(r["how"] == h for r in mutants)):
        say("| " + " | ".join(str(x) for x in [reason, *counts([r for r in mutants if r["how"] == reason])]) + " |")
    totals(mutants)
    for r in mutants:
        if r["how"] in ("survived", "infra", "proof"):
            say(f"\n{r['number']} {r['case']} ({r['family']}, line {r['line']}): {r['how']}; KernelBench's check: "
                f"{r['verdict']['kernelbench']['correctness']}")
            say("\n".join(f"  {sign} {line}" for sign, lines in zip("-+", changed(r)) for line in lines))


def totals(mutants):
    killed, infra, of = counts(mutants)[0], sum(r["how"] == "infra" for r in mutants), len(mutants)
    for name, shown in (("proofs counted", SHOWN), ("without proofs", ("equal PTX", "argument"))):
        differ = sum(r["how"] not in shown for r in mutants)
        say(f"\n{killed} of {differ} that differ ({name}) are killed: {100 * killed / max(differ, 1):.2f} %; infra "
            f"{infra}")
    read = [r["readers"] for r in mutants if r["how"] == "argument"]
    say(f"written arguments: {len(read)}, {100 * len(read) / max(of, 1):.1f} % of the mutants, "
        f"{sum(n > 1 for n in read)} of them read by a second person")
    passed = sum(r["verdict"]["kernelbench"]["correctness"] is True for r in mutants if r["how"] not in SHOWN)
    say(f"KernelBench's check passes {passed} of the {sum(r['how'] not in SHOWN for r in mutants)} that differ")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--count", type=int, default=1500)
    a.add_argument("--seed", default="1")
    a.add_argument("--hidden", type=int, default=1, help="seed of the verifier's hidden inputs")
    a.add_argument("--out", default=f"{ROOT}/build/mutants")
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--cases", default="")
    a.add_argument("--family", default="", choices=("",) + FAMILIES)
    a.add_argument("--list", help="write the mutants that are to be judged into this file, and judge nothing")
    a.add_argument("--again", action="store_true")
    a.add_argument("--table", action="store_true")
    a.add_argument("--show", type=int)
    o = a.parse_args()
    cases = cases_of([c for c in o.cases.split(",") if c])
    if o.show is not None:
        m = mutant(o.show, o.seed, cases, o.family)
        if not m:
            sys.exit(f"kernel_mutants: number {o.show} is no mutant under seed {o.seed}")
        say("".join(difflib.unified_diff(m[2].splitlines(True), m[3].splitlines(True), m[0], f"{m[0]}, {m[1]}")))
        return
    o.out = os.path.abspath(o.out)
    if o.list:
        os.makedirs(os.path.dirname(os.path.abspath(o.list)), exist_ok=True)
        with open(o.list, "w") as f:
            f.writelines(json.dumps(line) + "\n"
                         for line in batch(o, drawn(o.seed, cases, o.family), results(o.out), o.count))
        return
    if o.again:
        again(o)
    elif not o.table:
        run(o, cases)
    table(o)


if __name__ == "__main__":
    main()
