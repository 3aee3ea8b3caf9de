"""Lists of whole numbers in a task's text that belong to a size (worker/oracle_rows.py): at other
sizes lengths still make the whole and offsets still end with it, or the set of sizes is none;
inputs that are lengths or offsets are varied as such; and references that read values are weighed
with contents."""
import os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]
import torch

import oracle
import oracle_inputs
import oracle_rows
import oracle_size
from command import check, done
from oracle_reference import Reference

TASK = """import torch
import torch.nn as nn
E, T, D = 3, {t}, 24
{top}
class Model(nn.Module):
    def forward(self, x, w, {names}):
        {body}
        return x
def get_inputs():
    {made}
    return [torch.randn(T, D), torch.randn(E), {given}]
def get_init_inputs():
    return []
"""


def task(given, names="sizes", top="", made="pass", body="pass", t=40):
    return TASK.format(given=given, names=names, top=top, made=made, body=body, t=t)


def at(source, **sizes):
    """The source at other sizes, as the verifier makes it."""
    sites = oracle_size.sites_of(source, in_functions=False)
    return oracle_size.fitting(
        source, oracle_size.rewritten(source, sites, [sizes.get(s.name, s.value) for s in sites]), 42)


def given(source, **sizes):
    """Inputs behind the first two there."""
    return [v.tolist() if isinstance(v, torch.Tensor) else v
            for v in Reference(at(source, **sizes), 42).inputs(1).args[2:]]


def is_refused(source, **sizes):
    try:
        at(source, **sizes)
    except oracle_rows.Contradiction:
        return True
    return False


# Lengths whose sum is a size: in get_inputs, at the top of the module, as a plain list.
for source in (task("torch.tensor([13, 7, 20])"), task("torch.tensor(SIZES)", top="SIZES = (13, 7, 20)"),
               task("sizes", made="sizes = [13, 7, 20]"), task("torch.tensor([[13, 7, 20], [1, 9, 30]])[0]")):
    lengths = given(source, T=27)[0]
    check("lengths make the smaller whole", sum(lengths) == 27 and min(lengths) > 0 and len(lengths) == 3)
    check("and the larger", sum(given(source, T=59)[0]) == 59)
    check("other sizes leave them", given(source, D=30)[0] == [13, 7, 20])
check("empty parts stay empty", [v == 0 for v in given(task("torch.tensor([25, 0, 15])"), T=27)[0]] == [0, 1, 0])
check("another number of parts is none", is_refused(task("torch.tensor([13, 7, 20])"), E=2))
check("which stays", oracle_rows.ties(task("torch.tensor([13, 7, 20])"), [(40, 24), (3,)]) == ({40}, {3}))

# Offsets, by themselves and beside the lengths and the longest.
OFFSETS = task("torch.tensor([0, 13, 20, 40])")
for t in (27, 59):
    offsets = given(OFFSETS, T=t)[0]
    check("offsets end with the size", offsets[0] == 0 and offsets[-1] == t and offsets == sorted(set(offsets)))
BESIDE = task("torch.tensor([0, 13, 20, 40]), torch.tensor(SIZES), 20, max(SIZES)", "a, b, c, d", "SIZES = [13, 7, 20]")
for sizes in ({"T": 27}, {"T": 59}, {"T": 120}, {"T": 27, "SIZES[0]": 5, "SIZES[1]": 6}):
    offsets, lengths, longest, found = given(BESIDE, **sizes)
    check("lengths and offsets are of the same parts", [b - a for a, b in zip(offsets, offsets[1:])] == lengths)
    check("none is longer than what is said", max(lengths) <= longest and max(lengths) == found)

# Lengths of which the longest is a size, and those below one.
LONGEST = task("torch.tensor([40, 13, 27])")
check("the longest is the size", max(given(LONGEST, T=27)[0]) == 27 and max(given(LONGEST, T=59)[0]) == 59)
check("what is below stays below", max(given(task("torch.tensor([38, 13, 27])"), T=27)[0]) < 27)
check("and what fits stays", given(task("torch.tensor([20, 13, 11])"), T=27)[0] == [20, 13, 11])


# Drawn ones, of which the bound is a size: they fit smaller sizes, and are
# never more than was asked.
most = lambda source, **sizes: max(max(Reference(at(source, **sizes), 42).inputs(s).args[2].tolist()) for s in range(9))
DRAWN = task("torch.randint(1, 41, (50,))")
check("drawn lengths fit", most(DRAWN, T=27) == 27 and most(DRAWN, T=59) == most(DRAWN) == 40)
check("drawn indices fit", most(task("torch.randint(0, high=40, size=(50,))"), T=27) == 26)
check("other bounds stay", most(task("torch.randint(30, (50,))"), T=27) == 29)

# What the model has in its own text, a candidate has too.
for body in ("parts = [13, 7, 20]", "for a, b in ((0, 13), (13, 20), (20, 40)): pass"):
    own = task("1", body=body)
    check("a size beside the model's own list stays", is_refused(own, T=27) and not is_refused(own, D=20))
    check("and is not varied", all(s.name != "T" for g in oracle_inputs.constant_groups(
        own, False, oracle_rows.ties(own, [(40, 24)])[1]) for s in g))
check("shapes and axes are no lists of lengths",
      not oracle_rows.rows_of(task("torch.zeros((16, 24)).view([24, 16])", body="x.permute(0, 1).mean((0, 1))")))
equal = [changed for _, changed in oracle_inputs.size_variants(
    task("torch.tensor([13, 7, 20])").replace("D = 3, 40, 24", "D = 3, 40, 40"), "smaller", 3, (), ({40}, {3}))]
check("sizes that a list belongs to stay equal where they are", equal[0]["T"] == equal[0]["D"])

# Inputs that are such, under other values.
generator = torch.Generator().manual_seed(1)


def domains(source):
    return oracle.Variant(Reference(source, 42), "stock", {}, 7).domains


for numbers in ("[10, 10, 20]", "[7, 13, 20]", "[16, 8, 0, 16]", "[0, 10, 30, 40]"):
    domain = domains(task(f"torch.tensor({numbers})"))[2]
    others = [oracle_inputs.other_default(torch.tensor(eval(numbers)), domain, generator) for _ in range(20)]
    whole = [int(x[-1]) if numbers.startswith("[0") else int(x.sum()) for x in others]
    check(f"{numbers} are parts of the same whole", domain.is_parts and whole == [40] * 20)
    check("and vary", len({str(x) for x in others}) > 3)
domain = domains(task("torch.tensor([0, 13, 20, 40]), 20", "a, b"))[2]
others = [oracle_inputs.other_default(torch.tensor([0, 13, 20, 40]), domain, generator) for _ in range(20)]
check("none longer than what is said", max(int(x.diff().max()) for x in others) == 20)
domain = domains(task("torch.tensor([0, 13, 20, 40]), torch.tensor([13, 7, 20])", "a, b"))[3]
check("of two that belong together none",
      oracle_inputs.other_default(torch.tensor([13, 7, 20]), domain, generator) is None)
check("other whole numbers are no parts", not domains(task("torch.tensor([3, 1, 2])"))[2].is_parts
      and not domains(task("torch.arange(T)"))[2].is_parts)

# A reference that reads values. One that finds less than these say is known by it.
for body, is_cut in (("x[:int(sizes[0])]", False), ("x[20:20 + int(sizes[2])]", False), ("x[:, :int(sizes[0])]", False),
                     ("x[30:30 + int(sizes[0])]", True), ("x[:, :sizes.tolist()[2] + 13]", False),
                     ("x[None, ..., 1:int(sizes[2])]", False), ("x[:, 5:sizes[2].item() + 5]", True),
                     ("[x[i:i + 64] for i in range(0, 40, 64)]", False)):
    found = oracle.Variant(Reference(task("torch.tensor([13, 7, 20])", body=body), 42), "stock", {}, 7).is_cut
    check(f"{body}: {'less is there' if is_cut else 'nothing is missed'}", found == is_cut)
READS = task("torch.tensor([13, 7, 20])", body="x = torch.cat([x[:int(n)] for n in sizes])")
check("one that reads values is weighed with contents", oracle_size.weigh(READS, 42).seconds > 0)
try:
    oracle_size.weigh(READS.replace("40, 24", "40000, 2400"), 42)
    check("but not a large one", False)
except RuntimeError:
    check("but not a large one", True)
done()
