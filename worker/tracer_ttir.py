"""tracer_ttir: which pointer arguments of a kernel may be written, from its IR's text.

A state that one call leaves for the next has to show, so the tracer must know whether a launch can
change a buffer that outlives a forward. The answer errs on the side of "may be written": values are
followed from the arguments through every operation to the pointer operand of stores and atomics,
loops and branches without regard to position; pointers made from integers, and anything handed to a
function that was not inlined, count as everything.
"""
import functools
import re

VALUE = re.compile(r"%[\w$.-]+")
FUNCTION = re.compile(r"tt\.func public @[\w$.-]+\((.*)\) (?:-> .*)?attributes", re.DOTALL)
PAIR = re.compile(r"(%[\w$.-]+) = (%[\w$.-]+)")
ARGUMENT = re.compile(r"(%[\w$.-]+): ")
WRITES = re.compile(
    r"tt\.(store|atomic_\w+|descriptor_store|descriptor_scatter|descriptor_reduce)\b|"
    r"tt\.experimental_descriptor_store\b")


@functools.cache      # each size launches the same texts
def written_arguments(ttir):
    """Indices into the IR function's arguments, or None for "all of them"."""
    head = ttir.find("tt.func public")
    line_end = ttir.find("\n", head)
    match = FUNCTION.search(ttir[head:line_end])
    if head < 0 or match is None:
        return None
    names = ARGUMENT.findall(match.group(1))
    flow = {name: {i} for i, name in enumerate(names)}
    body = [line.split(" loc(")[0] for line in ttir[line_end:].split("\n")]
    body = [line for line in body if "%" in line]
    if any("tt.int_to_ptr" in line or "tt.call" in line for line in body):
        return None
    written = set()
    carried = set()      # what any yield of the kernel hands on
    for _ in range(len(body) + 1):
        before = (sum(map(len, flow.values())), len(carried))
        for line in body:
            follow(line, flow, carried, written)
        if (sum(map(len, flow.values())), len(carried)) == before:
            break
    return frozenset(written)


def follow(line, flow, carried, written):
    """One line of the IR: results take over what their operands come from."""
    left, _, right = line.partition(" = ") if re.match(r"\s*%[\w$.:-]+(, %[\w$.:-]+)* = ", line) else ("", "", line)
    operands = VALUE.findall(right)
    sources = [flow.get(base(o), frozenset()) for o in operands]
    if WRITES.search(right) and sources:
        written |= sources[0]
    if "scf.yield" in right or "scf.condition" in right or "cf." in right:
        carried.update(*sources)
        return
    if "tt.load" in right or "tt.atomic" in right:
        return
    joined = set().union(*sources)
    if "scf." in right:
        joined |= carried
        for inner, outer in PAIR.findall(right):     # iter_args(%inner = %outer, ...)
            flow.setdefault(inner, set()).update(carried, flow.get(base(outer), ()))
    elif "^bb" in line:                              # a block's arguments
        for name in operands:
            flow.setdefault(name, set()).update(carried)
    for name in VALUE.findall(left):
        flow.setdefault(base(name), set()).update(joined)


def base(name):
    """%r:2 and %r#1 are the value %r."""
    return name.split(":")[0].split("#")[0]
