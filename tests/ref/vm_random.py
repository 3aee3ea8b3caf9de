"""Random well-typed kernels: element-wise chains over blocks, reductions, scans, masks, casts,
loops and branches. Expected values come from Triton's interpreter alone, so only operations are
drawn that it evaluates exactly as the hardware does (IEEE single operations without NaN, wrapping
integers, division of non-negative integers; sums of floats only of small multiples of 1/8): results
are compared bit for bit.

A kernel is a pure function of (seed, number). Its source must be a file, because Triton reads it
again.
"""
import importlib.util
import os
import random

import torch
from vm_corpus import CASES, Case

HEADER = "import triton\nimport triton.language as tl\n\n\n"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64, "u32": torch.uint32,
          "i16": torch.int16}
TL = {"f32": "tl.float32", "f16": "tl.float16", "i32": "tl.int32", "i64": "tl.int64", "u32": "tl.uint32",
      "i16": "tl.int16"}
FLOATS = ("f32", "f16")


class Kernel:
    def __init__(self, rng, name):
        self.r, self.name, self.lines, self.count = rng, name, [], 0
        self.a, self.b = rng.choice([1, 2, 8, 16]), rng.choice([1, 4, 16, 32])
        self.values = []   # (variable, dtype or "bool", shape "AB", "A" or "B")
        self.inputs, self.outputs = [], []
        self.indent = "    "

    def emit(self, text):
        self.lines.append(self.indent + text)

    def fresh(self, dtype, shape, text):
        v = f"v{self.count}"
        self.count += 1
        self.emit(f"{v} = {text}")
        self.values.append((v, dtype, shape))
        return v

    def pick(self, dtype=None, shape=None, kinds=None):
        fits = [x for x in self.values if (dtype is None or x[1] == dtype) and (shape is None or x[2] == shape)
                and (kinds is None or x[1] in kinds)]
        return self.r.choice(fits[-6:]) if fits else None

    def load(self, dtype):
        p = f"x{len(self.inputs)}"
        self.inputs.append((p, dtype))
        mask = self.r.random() < 0.5
        extra = f", mask=inside, other={'1.5' if dtype in FLOATS else '3'}" if mask else ""
        self.fresh(dtype, "AB", f"tl.load({p} + offsets{extra})")

    def bounded(self, dtype, text):
        return f"tl.minimum(tl.maximum({text}, -500.0), 500.0)" if dtype in FLOATS else text

    def binary(self):
        x = self.pick(kinds=tuple(DTYPES))
        y = self.pick(dtype=x[1], shape=x[2])
        if x[1] in FLOATS:
            text = self.r.choice(["{0} + {1}", "{0} - {1}", "{0} * {1}", "tl.maximum({0}, {1})", "tl.minimum({0}, {1})",
                                  "tl.where({0} > {1}, {0}, {1} - {0})", "{0} * 0.5 + {1}"])
        else:
            text = self.r.choice(["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} & {1}", "{0} | {1}",
                                  "{0} ^ {1}", "tl.maximum({0}, {1})", "tl.minimum({0}, {1})",
                                  "{0} << ({1} & 7)", "{0} >> ({1} & 7)", "({0} & 8191) // (({1} & 63) + 1)",
                                  "({0} & 8191) % (({1} & 63) + 1)", "tl.where({0} <= {1}, {0}, {1})"])
        # the interpreter would promote 16-bit results of constants; the cast keeps both sides on
        # one type
        self.fresh(x[1], x[2], f"({self.bounded(x[1], text.format(x[0], y[0]))}).to({TL[x[1]]})")

    def unary(self):
        x = self.pick(kinds=tuple(DTYPES))
        if x[1] in FLOATS:
            text = self.r.choice(["tl.abs({0})", "0.25 * {0}", "tl.where({0} < 1.0, {0}, 2.0)"] + (
                ["tl.floor({0})", "tl.ceil({0})", "tl.sqrt(tl.abs({0}))", "{0} / 3.0"] if x[1] == "f32" else []))
        else:
            text = self.r.choice(["{0} + 7", "{0} * 5", "{0} ^ 85", "{0} >> 2"])
        self.fresh(x[1], x[2], f"({self.bounded(x[1], text.format(x[0]))}).to({TL[x[1]]})")

    def cast(self):
        x = self.pick(kinds=tuple(DTYPES))
        to = self.r.choice(list(DTYPES))
        if x[1] in FLOATS and to not in FLOATS:
            if to == "u32":
                to = "i32"
            text = f"{x[0]}.to(tl.float32).to({TL[to]})"
        elif to in FLOATS and x[1] not in FLOATS:
            text = f"({x[0]} & 255).to(tl.float32).to({TL[to]})"
        else:
            text = f"{x[0]}.to({TL[to]})"
        self.fresh(to, x[2], text)

    def compare(self):
        x = self.pick(kinds=tuple(DTYPES))
        y = self.pick(dtype=x[1], shape=x[2])
        self.fresh("bool", x[2], f"{x[0]} {self.r.choice(['<', '<=', '>', '>=', '==', '!='])} {y[0]}")

    def masks(self):
        x = self.pick(dtype="bool")
        if not x:
            return self.compare()
        y = self.pick(dtype="bool", shape=x[2])
        self.fresh("bool", x[2], self.r.choice(["{0} & {1}", "{0} | {1}", "{0} ^ {1}"]).format(x[0], y[0]))

    def select(self):
        m = self.pick(dtype="bool")
        if not m:
            return self.compare()
        x = self.pick(shape=m[2], kinds=tuple(DTYPES))
        y = x and self.pick(dtype=x[1], shape=m[2])
        if x:
            self.fresh(x[1], m[2], f"tl.where({m[0]}, {x[0]}, {y[0]})")

    def reduce(self):
        x = self.pick(shape="AB", kinds=tuple(DTYPES))
        if not x:
            return
        axis = self.r.choice([0, 1])
        shape, dtype = "BA"[axis], x[1]
        if dtype in FLOATS:
            op = self.r.choice(["max", "min", "sum", "argmax"])
            if op == "sum":
                self.fresh("f32", shape,
                           f"tl.sum(tl.floor(tl.minimum(tl.maximum({x[0]}.to(tl.float32), -60.0), 60.0) * 8.0) * "
                           f"0.125, {axis})")
                return
        else:
            op = self.r.choice(["max", "min", "sum", "argmin"] + (["xor_sum"] if dtype in ("i32", "i64") else []))
            if op == "sum" and dtype == "i16":
                dtype = "i32"
        self.fresh("i32" if op.startswith("arg") else dtype, shape, f"tl.{op}({x[0]}, {axis})")

    def scan(self):
        x = self.pick(shape="AB", kinds=("i32", "i64", "f32"))
        if not x:
            return
        axis, reverse = self.r.choice([0, 1]), self.r.choice(["", ", reverse=True"])
        source = f"tl.floor(tl.minimum(tl.maximum({x[0]}, -60.0), 60.0))" if x[1] == "f32" else x[0]
        self.fresh(x[1], "AB", self.bounded(x[1], f"tl.cumsum({source}, {axis}{reverse})"))

    def broadcast(self):
        x = self.pick(shape="A", kinds=tuple(DTYPES)) or self.pick(shape="B", kinds=tuple(DTYPES))
        y = x and self.pick(dtype=x[1], shape="AB")
        if y:
            index = "[:, None]" if x[2] == "A" else "[None, :]"
            self.fresh(x[1], "AB", f"({self.bounded(x[1], f'{y[0]} + {x[0]}{index}')}).to({TL[x[1]]})")

    def loop(self):
        x = self.pick(shape="AB", kinds=("i32", "f32"))
        y = x and self.pick(dtype=x[1], shape="AB")
        if not y:
            return
        v = self.fresh(x[1], "AB", x[0])
        self.emit(f"for step in range(n % 4 + {self.r.randint(0, 2)}):")
        self.emit(f"    {v} = {self.bounded(x[1], f'{v} + {y[0]}')}")
        if self.r.random() < 0.5:
            self.emit("    if (step + pid) % 2 == 0:")
            self.emit(f"        {v} = {self.bounded(x[1], f'{v} - {x[0]} * 2')}")

    def build(self):
        for _ in range(self.r.randint(1, 3)):
            self.load(self.r.choice(list(DTYPES)))
        steps = ([self.binary] * 6 + [self.unary] * 3 + [self.cast] * 2
                 + [self.compare, self.masks, self.select, self.reduce, self.reduce, self.scan, self.broadcast,
                    self.broadcast, self.loop])
        for _ in range(self.r.randint(5, 25)):
            self.r.choice(steps)()
        stores = []
        last = [x for x in self.values if x[1] != "bool"][-4:]
        for i, (v, dtype, shape) in enumerate(last):
            self.outputs.append((f"o{i}", dtype))
            at = {"AB": "offsets", "A": "pid * A * B + rows", "B": "pid * A * B + cols"}[shape]
            mask = ", mask=inside" if shape == "AB" and self.r.random() < 0.5 else ""
            stores.append(f"    tl.store(o{i} + {at}, {v}{mask})\n")
        params = ([p for p, _ in self.inputs] + [o for o, _ in self.outputs]
                  + ["n", "A: tl.constexpr", "B: tl.constexpr"])
        head = (f"@triton.jit\ndef {self.name}({', '.join(params)}):\n    pid = tl.program_id(0)\n    rows = "
                f"tl.arange(0, A)\n    cols = tl.arange(0, B)\n")
        head += "    offsets = pid * A * B + rows[:, None] * B + cols[None, :]\n    inside = offsets < n\n"
        return head + "\n".join(self.lines) + "\n" + "".join(stores)


def data(dtype, count, generator):
    if dtype in FLOATS:
        return (torch.randint(-32, 33, (count,), generator=generator) / 8).to(DTYPES[dtype])
    low, high = (0, 1000) if dtype == "u32" else (-1000, 1000)
    return torch.randint(low, high, (count,), generator=generator).to(DTYPES[dtype])


def make(count, seed, folder):
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        rng = random.Random(seed * 1000003 + number)
        name = f"random_{seed}_{number}"
        kernel = Kernel(rng, name)
        path = os.path.join(folder, name + ".py")
        text = HEADER + kernel.build()
        if not os.path.exists(path) or open(path).read() != text:
            with open(path, "w") as f:
                f.write(text)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        generator = torch.Generator().manual_seed(number)
        size = 3 * kernel.a * kernel.b
        args = {p: data(d, size, generator) for p, d in kernel.inputs}
        args.update({o: torch.zeros(size, dtype=DTYPES[d]) for o, d in kernel.outputs})
        args.update(n=size - rng.randint(0, kernel.a * kernel.b), A=kernel.a, B=kernel.b)
        CASES.append(Case(name, getattr(module, name), (3,), args, {o: None for o, _ in kernel.outputs}))
