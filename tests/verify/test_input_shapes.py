"""Shapes of rows that no draw brings about (worker/oracle_inputs.py): in each set of 40 rows there
is one of each, masks and probabilities keep what holds for all rows, and integers have the range
that a task asked for."""
import os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]
import torch

import oracle_guided
import oracle_inputs
from command import check, done
from oracle_reference import Asked

ROWS, COLUMNS = 40, 300


def generator(seed):
    return torch.Generator().manual_seed(seed)


def everywhere(holds):
    """Whether something holds for one row at least of each set."""
    sets = [oracle_inputs.rows(torch.zeros(ROWS, COLUMNS), generator(seed), True) for seed in range(20)]
    return all(any(holds(row) for row in rows) for rows in sets)


check("sorted rows", everywhere(lambda r: (r[1:] > r[:-1]).all()) and everywhere(lambda r: (r[1:] < r[:-1]).all()))
check("signs that take turns", everywhere(lambda r: (r[1:] * r[:-1] < 0).all()))
check("whole numbers", everywhere(lambda r: (r == r.round()).all() and r.max() > r.min() + 1))
check("tiny ones", everywhere(lambda r: 0 < r.abs().max() < 1e-7))
few = [oracle_inputs.rows(torch.zeros(n, COLUMNS), generator(seed), True) for n in (1, 2) for seed in range(200)]
check("but not where all other rows are zeros", all(x.abs().max() > 1e-3 or not x.any() for x in few))
sets = [oracle_inputs.rows(torch.zeros(ROWS, COLUMNS), generator(seed), True) for seed in range(100)]
half = [sum(100 < (r == 0).sum() < 200 for r in rows) for rows in sets]
again = [sum(bool(torch.equal(a, b) and a.std() > 0.1) for a, b in zip(rows, rows[1:])) for rows in sets]
check("zeros of both signs",
      all(any(not r.any() and 0 < torch.signbit(r).sum() < COLUMNS for r in rows) for rows in sets))
check("rows that are half of zeros", min(half) >= 1)
check("rows that come again", min(again) >= 1)
equal = [[r[0] for r in rows if r.any() and (r == r[0]).all()] for rows in sets]
digits = lambda x: (4 * x).round() == 4 * x
# Eight are dealt; one may be of zeros, and some be the row before instead.
check("of rows of equal elements at most one has few digits",
      all(len(e) >= 4 and sum(digits(x).item() for x in e) <= 1 for e in equal))
few = [oracle_inputs.rows(torch.zeros(n, COLUMNS), generator(seed), True) for n in (3, 4) for seed in range(300)]
check("of three or four rows one always varies", min(x.std(1).max() for x in few) > 0.01)
check("no equal elements where positions are returned",
      all(r.unique().numel() == COLUMNS for r in oracle_inputs.rows(torch.zeros(4, COLUMNS), generator(1), False)))

# Masks: drawn, padded (ones first), and with as many ones in each row.
drawn = torch.rand(ROWS, COLUMNS, generator=generator(3)) > 0.5
padded = torch.arange(COLUMNS) < torch.randint(1, COLUMNS, (ROWS, 1), generator=generator(3))
single = torch.nn.functional.one_hot(torch.arange(ROWS), COLUMNS).bool()
counts = oracle_inputs.mask_rows(drawn, generator(4), True).sum(1)
check("masks of ones, of a single one, and empty", {0, 1, COLUMNS} <= set(counts.tolist()))
check("none empty where that is not allowed", oracle_inputs.mask_rows(drawn, generator(4), False).sum(1).min() == 1)
after = oracle_inputs.mask_rows(padded, generator(4), True).int()
check("padding stays at the end", (after[:, 1:] <= after[:, :-1]).all() and not torch.equal(after, padded.int()))
check("one in each row stays one in each", torch.equal(oracle_inputs.mask_rows(single, generator(4), True), single))

# Probabilities.
chances = oracle_inputs.certain_rows(torch.rand(ROWS, 50, generator=generator(5)).softmax(-1))
check("all at one place, at two, and everywhere", {1, 2, 50} <= {r[r == r.max()].numel() for r in chances}
      and (chances.sum(1) - 1).abs().max() < 1e-5)

# Halves of rows that are the same, side by side or in turn, as in tables of a rotary embedding.
angles = torch.rand(ROWS, 8, generator=generator(6))
beside, turns = angles.repeat(1, 2), angles.repeat_interleave(2, 1)
other = torch.rand(ROWS, 16, generator=generator(6))
kept = {name: oracle_inputs.keep_structure(x, torch.randn(x.shape, generator=generator(7)))
        for name, x in (("beside", beside), ("turns", turns), ("other", other), ("ones", torch.ones(ROWS, 16)))}
check("equal halves stay", torch.equal(kept["beside"][:, :8], kept["beside"][:, 8:])
      and kept["beside"][0].unique().numel() == 8)
check("equal neighbours stay", torch.equal(kept["turns"][:, ::2], kept["turns"][:, 1::2])
      and kept["turns"][0].unique().numel() == 8)
check("other rows have none, and one number throughout is no halves",
      all(kept[name][0].unique().numel() == 16 for name in ("other", "ones")))
fixed = oracle_inputs.other_default(beside, oracle_inputs.Domain(beside, beside), generator(8))
check("a table that no seed changes keeps them",
      torch.equal(fixed[:, :8], fixed[:, 8:]) and not torch.equal(fixed, beside))

# Integers by what was asked for.
with Asked() as asked:
    tokens, offset = torch.randint(0, 5000, (ROWS,)), torch.randint(3, 9, (4,)) + 100
check("the range that was asked for", asked.range_of(tokens) == (0, 4999) and asked.range_of(offset) is None)
domain = oracle_inputs.Domain(tokens, tokens.flip(0), asked.range_of(tokens))
ends = oracle_inputs.transform(tokens, domain, "rows", generator(6), False, 0)
check("both of its ends, and equal neighbours", ends[0] == 4999 and ends[-1] == 0 and (ends[1:] == ends[:-1]).any())
kept = oracle_inputs.transform(tokens, domain, "rows", generator(6), False, 1)
check("or the same numbers in another order", torch.equal(kept.sort().values, tokens.sort().values))

# Single elements where positions are returned.
x = torch.randn(4, 9, generator=generator(7))
edited, wanted = x.clone(), x.clone()
edited[1, 2], edited[2, 3], edited[0, 0], edited[3, 8] = x[1, 5], x[0, 3], 1e4, 1.2345
wanted[3, 8] = 1.2345
check("neither equal ones nor far ones", torch.equal(oracle_guided.in_order(x, edited), wanted))

# Inputs that are another's.
a, b = torch.randn(ROWS, 9, generator=generator(8)), torch.randn(ROWS, 9, generator=generator(9))
free = [oracle_inputs.Domain(a, b)] * 2
same = lambda whole: {s for s in (1, -1) for r, q in zip(*oracle_inputs.shared([a, b], free, generator(1), whole))
                      if torch.equal(r, s * q)}
check("rows of one input are another's, with either sign", same(True) == {1, -1} and not same(False))
done()
