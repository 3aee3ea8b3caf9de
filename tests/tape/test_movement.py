"""timeout: 300
What the tracer says about moving data is true: each expression below is traced, the tape's fills
and copies are replayed on real bytes, and the result is compared bit for bit with what torch
computes. No row may be a library row. The replayer here is torch's as_strided over byte buffers,
written for this test alone."""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import zygote_client as client

import torch

# (body of forward(self, x, y), expected kinds of rows or None). x is (4, 6, 10) float32, y is (6,
# 4) int64; self.w is a parameter (3, 5), self.t a plain tensor made in __init__.
CASES = [
    ("return x.contiguous()", []),
    ("return x.clone()", ["copy"]),
    ("return x.permute(2, 0, 1).contiguous()", ["copy"]),
    ("return x.transpose(0, 1).reshape(-1)", ["copy"]),
    ("return x[1:3, ::2, 4]", []),
    ("return x[:, None, 2:, ...].expand(4, 3, 4, 10).contiguous()", ["copy"]),
    ("return x.to(torch.float16)", ["copy"]),
    ("return (x * 0 if False else x).double()", ["copy"]),
    ("return x.to(torch.int32)", ["copy"]),
    ("return y.float()", ["copy"]),
    ("return (y.to(torch.int8), y.bool(), x.bfloat16())", ["copy"] * 3),
    ("return x.t() if x.dim() == 2 else x.mT", []),
    ("return torch.cat([x, x[:1]], dim=0)", ["copy"] * 2),
    ("return torch.cat([x, x[:, :2], x], 1)", ["copy"] * 3),
    ("return torch.cat([x.half(), x], -1)", ["copy"] * 3),
    ("return torch.cat([torch.empty(0, device=x.device), x.flatten()])", None),
    ("return torch.stack([x, x], dim=2)", ["copy"] * 2),
    ("return torch.hstack([y, y]), torch.vstack([y, y]), torch.dstack([y, y])", ["copy"] * 6),
    ("return F.pad(x, (1, 2))", ["fill", "copy"]),
    ("return F.pad(x, (0, 0, 3, 1, 2, 0), value=-1.5)", ["fill", "copy"]),
    ("return F.pad(x, (-1, 2, 0, -3), value=float('-inf'))", ["fill", "copy"]),
    ("return x.repeat(2, 1, 3)", ["copy"]),
    ("return y.repeat(2, 3, 1, 2)", ["copy"]),
    ("return torch.tile(y, (2, 2))", ["copy"]),
    ("return y.repeat_interleave(3, dim=1)", None),
    ("return x.roll(3, 1)", ["copy"] * 2),
    ("return x.roll((-1, 4), (0, 2))", ["copy"] * 4),
    ("return x.flip(1)", ["copy"] * 6),
    ("return y.flip(0, 1)", ["copy"] * 24),
    ("return torch.zeros(5, 7, device=x.device)", ["fill"]),
    ("return torch.ones_like(y), torch.full_like(x, 2.5), x.new_full((3,), 7, dtype=torch.int16)", ["fill"] * 3),
    ("return torch.full((2, 3), float('nan'), device='cuda')", ["fill"]),
    ("return torch.full((2, 3), True, device='cuda'), torch.full((4,), -(2 ** 62), dtype=torch.int64, device='cuda')",
     ["fill"] * 2),
    ("z = torch.zeros_like(x); z[:, 1] = x[:, 2]; return z", ["fill", "copy"]),
    ("z = torch.zeros_like(x); z[:, 1] = 3; z[0] = 4.5; return z", None),
    ("z = torch.empty_like(x); z.fill_(2); z[1].zero_(); return z", ["fill", "fill"]),
    ("z = x.clone(); z[..., ::2] = x[..., 1::2]; return z", ["copy"] * 2),
    ("z = x.new_zeros(4, 6, 12); z[:, :, 1:11].copy_(x); return z", ["fill", "copy"]),
    ("z = torch.empty(4, 6, 10, device=x.device, dtype=torch.float16); z.copy_(x); return z", ["copy"]),
    ("z = torch.empty_like(x); z.copy_(x[0]); return z", ["copy"]),
    ("return x.unfold(2, 4, 2).contiguous()", ["copy"]),
    ("return x.as_strided((3, 3), (7, 2), 5).clone()", ["copy"]),
    ("return x.to(memory_format=torch.contiguous_format).movedim(0, 2).contiguous()", ["copy"]),
    ("return x[None].to(memory_format=torch.channels_last)", ["copy"]),
    ("return F.pixel_shuffle(x.reshape(1, 24, 10, 1)[:, :, :9].reshape(1, 24, 3, 3), 2)", None),
    ("return F.pixel_unshuffle(x[:, :, :6].reshape(4, 1, 6, 6), 3)", None),
    ("return x.chunk(3, dim=1)[1].contiguous(), x.split([2, 8], dim=2)[1].contiguous()", ["copy"] * 2),
    ("return [t.contiguous() for t in x.unbind(1)][2]", None),
    # What is computed from constants alone is on the tape as its result; a fill at the end stands
    # for what each operator moves.
    ("return torch.arange(10, device=x.device), torch.arange(0, 1, 0.125, device='cuda')", ["fill"] * 2),
    ("return torch.arange(6, device=x.device).float() * 2 + 1", ["fill"] * 4),
    ("return torch.tensor([1.5, 2.5], device=x.device), torch.tensor(7, device='cuda')", ["fill"] * 2),
    ("return torch.eye(4, device=x.device), torch.linspace(0, 1, 5, device='cuda'), torch.tril(torch.ones(3, 3, "
     "device='cuda'))",
     None),
    ("return torch.tensor([3, 1, 2]).to(x.device), torch.ones(3).cuda()", ["fill"] * 2),
    ("return x.view(torch.int32), x.view(4, 60), x.ravel(), x.unflatten(2, (2, 5)), x.swapaxes(0, 1)", []),
    ("return self.w.t().contiguous(), self.w.data.clone()", ["copy"] * 2),
    ("return torch.slice_scatter(x, x[:, 1:3], 1, 0, 4, 2)", ["copy"] * 2),
    ("return torch.select_scatter(x, x[:, 1], 1, 3)", ["copy"] * 2),
    ("return x.detach().requires_grad_().clone()", ["copy"]),
    ("return x.cuda().to('cuda:0').to(x.device, x.dtype).type_as(x)", []),
    ("return self.t.clone(), self.table.clone(), self.t * 2", ["fill"] * 3),
    ("return torch.broadcast_to(y, (2, 6, 4)).contiguous(), y.expand_as(y).contiguous()", ["copy"]),
    ("return x.new_tensor([1.0, 2.0]), x.new_ones(2), y.new_empty((0, 3))", None),
    ("return torch.atleast_2d(x[0, 0]), x.squeeze(), x.unsqueeze(-1)", []),
    ("return torch.clone(x.mT, memory_format=torch.preserve_format)", ["copy"]),
    ("m = torch.tril(torch.ones(5, 5, device=x.device)) == 0; z = torch.zeros(2, 5, 5, device='cuda'); z[1] = m; "
     "return z",
     ["fill", "copy"] + ["fill"] * 3),
    ("return torch.zeros((), device='cuda').expand(3), x.sum(dim=0)[:0]", None),
    ("return {'a': x.clone(), 'b': [y.clone(), (y.t(),)]}", ["copy"] * 2),
]

SOURCE = '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(15.0).reshape(3, 5))
        self.t = torch.arange(4, device="cuda") * 3
        self.table = torch.zeros(2, 2, device="cuda")
        self.table[0, 1] = 5

    def forward(self, x, y):
        {body}
'''


def as_view(buffers, v):
    dtype = getattr(torch, v["dtype"])
    flat = buffers[v["buffer"]]
    count = flat.numel() // dtype.itemsize
    return flat[: count * dtype.itemsize].view(dtype).as_strided(v["shape"], v["stride"], v["offset"] // dtype.itemsize)


def number(text):
    return float(text) if isinstance(text, str) else text


def replay(tape, inputs):
    buffers = []
    for b in tape["buffers"]:
        flat = torch.full((b["bytes"],), 0xAB, dtype=torch.uint8)
        if b["kind"] == "input":
            source = inputs[b["input"]].flatten().view(torch.uint8)
            flat[: source.numel()] = source
        elif b["kind"] == "const":
            flat = torch.frombuffer(bytearray(base64.b64decode(b["data"])), dtype=torch.uint8) if b["bytes"] else flat
        buffers.append(flat)
    for row in tape["rows"]:
        if row["op"] == "fill":
            as_view(buffers, row["dst"]).fill_(number(row["value"]))
        elif row["op"] == "copy":
            as_view(buffers, row["dst"]).copy_(as_view(buffers, row["src"]))
    return [as_view(buffers, v) for v in tape["outputs"]]


def flatten(out):
    if isinstance(out, torch.Tensor):
        return [out]
    return [t for item in (out.values() if isinstance(out, dict) else out) for t in flatten(item)]


def same(a, b):
    return (a.dtype == b.dtype and a.shape == b.shape
            and torch.equal(a.contiguous().flatten().view(torch.uint8), b.contiguous().flatten().view(torch.uint8)))


def main():
    tap = client.Tap()
    zygote = client.Zygote("tracer")
    torch.manual_seed(3)
    x = torch.randn(4, 6, 10) * 20
    y = torch.randint(-5, 5, (6, 4))
    for body, kinds in CASES:
        text = SOURCE.format(body=body)
        result = zygote.result({"source": text, "init_args": [], "state": {},
                                "inputs": [client.describe(x), client.describe(y)]})
        if "tape" not in result:
            tap.check(False, body, result)
            continue
        tape = json.loads(result["tape"])
        found = [row["op"] for row in tape["rows"]]
        scope = {}
        exec(text.replace("'cuda'", "'cpu'").replace('"cuda"', '"cpu"').replace(".cuda()", "").replace("'cuda:0'",
            "'cpu'"), scope)
        with torch.no_grad():
            expected = flatten(scope["ModelNew"]()(x.clone(), y.clone()))
        if "library" in found:
            # The one case with an operator on purpose: an empty slice of a sum.
            tap.check("sum" in body, body, f"library row: {tape['rows']}")
            continue
        got = replay(tape, [x, y])
        bad = [i for i, (a, b) in enumerate(zip(got, expected)) if not same(a, b)]
        tap.check(not bad and len(got) == len(expected) and (kinds is None or found == kinds), body,
                  f"outputs {bad} differ; rows {found}, expected {kinds}")
    tap.check(zygote.close() == 0, "the zygote ends when its control socket closes")
    return tap.done()


sys.exit(main())
