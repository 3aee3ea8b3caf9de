# timeout: 180
"""The process that judges a task's own sizes (worker/stock.py), on the CPU: what it says of outputs
beside a plain reading of docs/verifier.md's formula, in pieces of any size; the fp64 reference in
slices; what it shares and what forward changed. What a GPU makes of it is test-gpu's."""
import math
import sys
import tempfile
sys.path.insert(0, "tests")
sys.path.insert(0, "worker")
from command import check, done, work_folder

dir = work_folder("stock")
tempfile.tempdir = dir
import torch
import oracle_size
import stock

RULES = {"shares": [0.002, 0.02, 0.2, 1.0], "calm": 0.25, "averaged_min": 8, "coarse": False, "flips": 64,
         "last_place": 4, "floors": {"float32": 5e-5, "float16": 2e-3}, "usable": {"float32": 2e-4, "float16": 1e-2}}


def plainly(f, r, y, tolerance):
    """The formula, element by element: (largest error of f, largest error of y, wrong ones, the
    first)."""
    rows, columns = f.reshape(-1, f.shape[-1]).shape
    f, r, y = (t.reshape(rows, columns).double().tolist() for t in (f, r, y))
    fine = [(i, j) for i in range(rows) for j in range(columns) if math.isfinite(f[i][j]) and math.isfinite(r[i][j])]
    # Means of rows and columns, which an element's own size is measured by where there are enough
    # of them.
    mean = sum(abs(r[i][j]) for i, j in fine) / len(fine)
    row = [sum(abs(v) for v in line if math.isfinite(v)) / columns / mean for line in r]
    column = [sum(abs(r[i][j]) for i in range(rows) if math.isfinite(r[i][j])) / rows / mean for j in range(columns)]

    def m(i, j, share):
        a = row[i] if columns >= 8 and rows > 1 else 1
        b = column[j] if rows >= 8 and columns > 1 else 1
        return mean * min(1, max(a * b, share)) if (columns >= 8 and rows > 1) or (rows >= 8 and columns > 1) else mean

    def error(v, i, j, share):
        return 0 if v == r[i][j] else abs(v - r[i][j]) / (abs(r[i][j]) + m(i, j, share))
    # The first share at which the reference's own error is calm.
    for share in RULES["shares"]:
        mine = max(error(f[i][j], i, j, share) for i, j in fine)
        if mine <= RULES["calm"] * RULES["floors"]["float32"]:
            break
    # Then each element of the candidate's; what is not finite has to be so in both.
    worst, wrong = 0.0, []
    for i in range(rows):
        for j in range(columns):
            v, a, b = y[i][j], f[i][j], r[i][j]
            kind = lambda x: "nan" if math.isnan(x) else x if math.isinf(x) else "finite"
            known = b if math.isfinite(b) else a       # whichever of the two is finite, if one is
            if (i, j) not in fine and kind(v) == kind(b if math.isfinite(a) else a):
                e = 0.0
            elif math.isfinite(v) and math.isfinite(known):
                e = 0.0 if v == known else abs(v - known) / (abs(known) + m(i, j, share))
            else:
                e = math.inf
            worst = max(worst, e)
            wrong += [i * columns + j] if not e <= tolerance else []
    return mine, worst, len(wrong), wrong[0] if wrong else -1


def near(a, b):
    a, b = float(a), float(b)
    return a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b))


torch.manual_seed(5)
for chunk in (1 << 25, 64, 7):
    stock.CHUNK = chunk
    for shape in ((12, 9), (3, 4, 10), (40,), (1, 100), (16, 3)):
        r = torch.randn(shape, dtype=torch.float64) * torch.logspace(-3, 1, shape[-1], dtype=torch.float64)
        f = r.float()
        for what in ("right", "one off", "not a number", "reference overflows"):
            found = f * (1 + 1e-6)
            if what == "one off":
                found.view(-1)[found.numel() - 2] += 0.5
            elif what == "not a number":
                found.view(-1)[1] = math.nan
            elif what == "reference overflows":
                f = f.clone()
                f.view(-1)[3] = math.inf
                found.view(-1)[3] = math.inf
                found.view(-1)[4] = -math.inf
            want = plainly(f, r, found, 5e-5)
            e = stock.Expected(f, r, RULES)
            told = e.compare(found, 5e-5)
            got = (e.error, told["error"], told["mismatches"], told["first"])
            check(f"{what}, {shape} in pieces of {chunk}", all(near(a, b) for a, b in zip(got, want)), (got, want))
# A half format's values: a few may be the next one, which lies a step away and is the format's too.
for chunk in (1 << 25, 7):
    stock.CHUNK = chunk
    for narrow in (torch.float16, torch.bfloat16):
        half = torch.randn(16, 24).to(narrow)
        f = half.float()
        near_by = (half.view(torch.int16) + 1).view(narrow).float()
        for what, found, wrong in (("a few", torch.where(torch.arange(384).reshape(16, 24) % 64 == 5, near_by, f), 0),
                                   ("half a step", torch.where(torch.arange(384).reshape(16, 24) == 5,
                                                               (near_by + f) / 2, f), 1),
                                   ("more", torch.where(torch.arange(384).reshape(16, 24) % 48 == 5, near_by, f), 8)):
            told = stock.Expected(f, f.double(), RULES).compare(found, 5e-5)
            check(f"{narrow}, {what} in pieces of {chunk}", told["mismatches"] == wrong, told)
places = torch.arange(1024.0, 1408.0).reshape(16, 24)
other = places.clone()
other[0, 7] += 1
told = stock.Expected(places, places.double(), RULES).compare(other, 5e-5)
check("whole numbers are no half format's values", told["mismatches"] == 1, told)
stock.CHUNK = 5
whole, other = torch.arange(24).reshape(4, 6), torch.arange(24).reshape(4, 6)
other[2, 3] = 7
told = stock.Expected(whole, None, RULES).compare(other, 0.0)
check("integers are equal or not", [told[k] for k in ("mismatches", "first", "expected", "found", "absolute")]
      == [1, 15, "15", "7", 8.0], told)
stock.CHUNK = 1 << 25

# ---- a reference ----

SOURCE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n))
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x, y):
        self.seen.add_(1)
        y.mul_(2)
        return torch.softmax(x * self.scale, -1), (x > y.mean()).sum(-1)
def get_inputs(): return [torch.rand(16, 6), torch.rand(6, 4).t()]
def get_init_inputs(): return [6]
"""
job = {"source": SOURCE, "init_seed": 42, "training": False}
own = stock.Stock(job, "cpu")
TRIAL = {"seed": 11, "distribution": "sign-mixed", "parameters": "random"}
message, expected = stock.attempt(own, TRIAL, False, 0, RULES)
check("a trial", expected is not None, message)
check("forward's changes are told", [p["changes"] for p in message["inputs"]] == [False, True]
      and {p["name"]: p["changes"] for p in message["params"]} == {"scale": False, "seen": True}, message)
x = own.given.image(message["inputs"][0]["offset"], torch.empty(16, 6))
y = own.given.image(message["inputs"][1]["offset"], torch.empty(6, 4).t())
scale = own.given.image(message["params"][0]["offset"], torch.empty(6))
check("what is shared is what forward was given: before it changed it, and with its strides",
      torch.equal(expected[0].f, torch.softmax(x * scale, -1)) and y.stride() == (1, 4)
      and torch.equal(expected[1].f.reshape(-1), (x > (2 * y).mean()).sum(-1)) and not torch.equal(scale, torch.ones(6))
      and own.given.image(message["params"][1]["offset"], torch.empty(1)).item() == 0)
check("fp64 beside it", torch.equal(expected[0].r, torch.softmax(x.double() * scale.double(), -1))
      and expected[1].r is None and 0 < expected[0].error < 1e-6, expected[0].error)
check("the outputs' memory holds nothing", bool((own.outputs.memory == 0xff).all()))
again, same = stock.attempt(own, TRIAL, False, 0, RULES)
check("the same seed gives the same bytes", torch.equal(same[0].f, expected[0].f)
      and again["given_bytes"] == message["given_bytes"])

# in slices, where the whole does not fit
real, asked = stock.forward_double, []


def small(model, call):
    asked.append(call.tensors()[0].shape[0])
    if asked[-1] > 5:
        raise stock.OUT_OF_MEMORY("no room")
    return real(model, call)


stock.forward_double = small
shared = stock.attempt(stock.Stock(dict(job, source=SOURCE.replace("y.mean()", "0.5")), "cpu"), TRIAL, False, 0, RULES)
check("the fp64 reference in slices of the batch", asked[:2] == [16, 8] and set(asked[2:]) == {4}
      and shared[1] is not None and torch.equal(shared[1][0].r, expected[0].r), asked)
asked.clear()
crossed = SOURCE.replace("torch.softmax(x * self.scale, -1)", "torch.softmax(x * self.scale, 0)")
why = stock.attempt(stock.Stock(dict(job, source=crossed), "cpu"), TRIAL, False, 0, RULES)
check("slices that belong together are noticed: fp64 is nowhere near then",
      why[1] is None and "not exact" in why[0], why)
stock.forward_double = real

# ---- the sizes that are left to the vm ----


LARGE = "import torch\nB = 4096\nN = 393216\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 2\n" \
        "def get_inputs(): return [torch.rand(B, N)]\ndef get_init_inputs(): return []\n"
budget = {"trials": [None] * 20, "work_ms": 30000}
alone, beside = (oracle_size.fit(LARGE, 42, oracle_size.Budget(dict(budget, spare=s)))[1] for s in (False, True))
check("few rows where a GPU judges the task's own sizes", alone["B"][1] > beside["B"][1] == 4 and "N" not in beside,
      (alone, beside))
check("a task that fits is judged as it is",
      oracle_size.fit(LARGE.replace("4096", "64").replace("393216", "96"), 42,
                      oracle_size.Budget(dict(budget, spare=True)))[1] == {})

drawing = SOURCE.replace("self.seen.add_(1)", "x = x + torch.rand_like(x)")
try:
    stock.attempt(stock.Stock(dict(job, source=drawing), "cpu"), TRIAL, False, 0, RULES)
    check("a reference that draws", False)
except stock.Fault as e:
    check("a reference that draws is refused", "draws random" in str(e), e)
done()
