"""Inputs, results and gradients of every operation, from PyTorch in float64, for
tests/ops/test_ops.c.

    python tests/ref/ops_oracle.py OUT_DIR      writes OUT_DIR/<family>.safetensors

Tensors are named <case number>.<name>; what a case needs beside tensors (sizes, flags, numbers) is
a 1-d tensor of float64 named <case>.args. Inputs are rounded to float32 first, so that both sides
start from the same numbers.
"""
import os
import sys

import torch
from safetensors.torch import save_file

F64 = torch.float64
gen = torch.Generator().manual_seed(7)


def rand(*shape, scale=1.0):
    return (torch.randn(*shape, generator=gen, dtype=torch.float32) * scale).to(F64)


class Family:
    def __init__(self, name):
        self.name, self.tensors, self.cases = name, {}, 0

    def case(self, args, **tensors):
        self.tensors[f"{self.cases}.args"] = torch.tensor([float(a) for a in args], dtype=F64)
        for key, value in tensors.items():
            value = value.detach()
            dtype = torch.int32 if value.dtype in (torch.int32, torch.int64) else torch.float32
            self.tensors[f"{self.cases}.{key}"] = value.to(dtype).contiguous().clone()
        self.cases += 1

    def save(self, folder):
        save_file(self.tensors, os.path.join(folder, self.name + ".safetensors"))


def matmul():
    f = Family("matmul")
    sizes = [(1, 1, 1), (1, 31, 33), (31, 1, 127), (31, 33, 127), (33, 127, 31), (127, 130, 64), (2, 1000, 257),
             (16, 515, 96), (130, 70, 700), (1, 300, 1030), (35, 97, 16)]
    for M, N, K in sizes:
        for at in (0, 1):
            for bt in (0, 1):
                for alpha, acc in ((1.0, 0), (-0.5, 1)):
                    a, b, out = rand(M, K), rand(K, N), rand(M, N)
                    want = alpha * (a @ b) + (out if acc else 0)
                    f.case([M, N, K, at, bt, alpha, acc], a=a.T if at else a, b=b.T if bt else b, out=out, want=want)
    return f


def norm():
    f = Family("norm")
    for M, N in [(1, 5), (1, 33), (31, 33), (33, 127), (127, 64), (3, 1030), (257, 16)]:
        for acc in (0, 1):
            x, w, dy, dx0, dw0 = rand(M, N), rand(N), rand(M, N), rand(M, N), rand(N)
            x.requires_grad_(), w.requires_grad_()
            eps = 1e-6 if acc else 1e-2
            eps = float(torch.tensor(eps, dtype=torch.float32))
            rstd = torch.rsqrt((x * x).mean(1) + eps)
            y = x * rstd[:, None] * w
            dx, dw = torch.autograd.grad(y, (x, w), dy)
            f.case([M, N, eps, acc], x=x, w=w, dy=dy, dx0=dx0, dw0=dw0, y=y, rstd=rstd, dx=dx + (dx0 if acc else 0),
                   dw=dw + dw0)
    return f


def rows():
    f = Family("rows")
    for M, N, V in [(1, 1, 1), (31, 33, 5), (127, 65, 1000), (3, 257, 2)]:
        x, bias, dbias0, dtable0 = rand(M, N), rand(N), rand(N), rand(V, N)
        table, ids = rand(V, N), torch.randint(0, V, (M,), generator=gen)
        dtable = dtable0.clone().index_add_(0, ids, x)
        f.case([M, N, V], x=x, bias=bias, dbias0=dbias0, table=table, ids=ids, dtable0=dtable0,
               biased=x + bias, dbias=dbias0 + x.sum(0), embedded=table[ids], dtable=dtable)
    return f


def rope():
    f = Family("rope")
    for T, NH, HD in [(1, 1, 2), (31, 3, 16), (33, 1, 64), (5, 2, 128), (127, 4, 34)]:
        inv = 10000.0 ** (-torch.arange(0, HD, 2, dtype=F64) / HD)
        P = T + 5
        angle = torch.arange(P, dtype=F64)[:, None] * inv[None]
        table = torch.stack([angle.cos(), angle.sin()], 1).float().to(F64)   # (P, 2, HD/2)
        pos = torch.randint(0, P, (T,), generator=gen)
        x = rand(T, NH, HD)
        for inverse in (0, 1):
            c, s = table[pos, 0][:, None], table[pos, 1][:, None] * (-1 if inverse else 1)
            lo, hi = x[..., : HD // 2], x[..., HD // 2:]
            f.case([T, NH, HD, inverse], x=x, table=table, pos=pos,
                   want=torch.cat([lo * c - hi * s, hi * c + lo * s], -1))
    return f


def attend(q, k, v):
    """q (T, NH, HD), k and v (T, NKV, HD) of one sequence."""
    T, NH, HD = q.shape
    group = NH // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("thd,shd->hts", q, k) / HD**0.5
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
    return torch.einsum("hts,shd->thd", scores.softmax(-1), v), scores.logsumexp(-1).T


def attention():
    f = Family("attention")
    cases = [([1], 1, 1, 16), ([31, 33, 1], 4, 1, 16), ([127], 2, 2, 64), ([32, 64, 5], 4, 2, 32), ([65, 33], 3, 1, 34),
             ([40], 8, 2, 128), ([300, 2, 130], 2, 1, 64), ([9], 2, 1, 256), ([70, 31], 6, 2, 8)]
    for lengths, NH, NKV, HD in cases:
        T = sum(lengths)
        q, k, v, dout = rand(T, NH, HD), rand(T, NKV, HD), rand(T, NKV, HD), rand(T, NH, HD)
        for x in (q, k, v):
            x.requires_grad_()
        outs, lses, at = [], [], 0
        for n in lengths:
            o, lse = attend(q[at:at + n], k[at:at + n], v[at:at + n])
            outs.append(o), lses.append(lse)
            at += n
        out = torch.cat(outs)
        dq, dk, dv = torch.autograd.grad(out, (q, k, v), dout)
        start = torch.tensor([0] + [sum(lengths[: i + 1]) for i in range(len(lengths))])
        pos = torch.cat([torch.arange(n) for n in lengths])
        f.case([T, len(lengths), NH, NKV, HD], q=q, k=k, v=v, dout=dout, start=start, pos=pos, out=out,
               lse=torch.cat(lses), dq=dq, dk=dk, dv=dv)
    return f


def mlp():
    f = Family("mlp")
    for n in (1, 31, 33, 127, 5000, 40001):
        gate, up, dout, y = rand(n, scale=3), rand(n), rand(n), rand(n)
        if n > 30:
            gate[:6] = torch.tensor([0.0, 100.0, -100.0, 60.0, -60.0, 1e-20], dtype=torch.float32).to(F64)
        gate.requires_grad_(), up.requires_grad_()
        out = torch.nn.functional.silu(gate) * up
        dgate, dup = torch.autograd.grad(out, (gate, up), dout)
        f.case([n], gate=gate, up=up, dout=dout, y=y, out=out, dgate=dgate, dup=dup, axpyed=y - 0.75 * up,
               scaled=1.5 * y, sum_squares=(y * y).sum()[None])
    return f


def head():
    f = Family("head")
    for N, V in [(1, 1), (1, 33), (31, 127), (33, 1000), (3, 20011)]:
        for temperature in (1.0, 0.7):
            logits = rand(N, V, scale=4)
            if V > 100:
                logits[0, 3] = float("-inf")
            targets, g = torch.randint(4 if V > 100 else 0, V, (N,), generator=gen), rand(N)
            if N > 2:
                g[1] = 0
            logits.requires_grad_()
            t = float(torch.tensor(temperature, dtype=torch.float32))
            logp = (logits / t).log_softmax(-1)
            chosen = logp[torch.arange(N), targets]
            p = logp.exp()
            entropy = -(p * torch.where(p > 0, logp, 0.0)).sum(-1)
            (dlogits,) = torch.autograd.grad(chosen, logits, g)
            f.case([N, V, t], logits=logits, targets=targets, g=g, logprob=chosen, entropy=entropy,
                   lse=(logits / t).logsumexp(-1), dlogits=dlogits)
    return f


def optim():
    f = Family("optim")
    for n, wd in [(1, 0.0), (33, 0.1), (9001, 0.01)]:
        p0, grads = rand(n), [rand(n) for _ in range(4)]
        lr, b1, b2, eps = 1e-2, 0.9, 0.999, 1e-8
        p = torch.nn.Parameter(p0.clone())
        # float64 arithmetic on the float32 values of the settings
        lr, b1, b2, eps, wd = (float(torch.tensor(x, dtype=torch.float32)) for x in (lr, b1, b2, eps, wd))
        opt = torch.optim.AdamW([p], lr=lr, betas=(b1, b2), eps=eps, weight_decay=wd)
        for g in grads:
            p.grad = g.clone()
            opt.step()
        state = opt.state[p]
        f.case([n, lr, b1, b2, eps, wd, len(grads)], p0=p0, grads=torch.stack(grads), p=p, m=state["exp_avg"],
               v=state["exp_avg_sq"])
    return f


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for family in (matmul, norm, rows, rope, attention, mlp, head, optim):
        family().save(sys.argv[1])
