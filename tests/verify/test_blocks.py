"""Sizes that reach a block (src/verify/powers_step.c): which refusals are Triton's own and about a
power of two (worker/rebuild.py), and trials that stand for ordinary ones
(worker/oracle_sized.py)."""
import json, os, socket, sys, threading

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]

import oracle_sized
import rebuild
import wire
from command import check, done

# ---- refusals ----

KERNEL = """import triton
import triton.language as tl

@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    {}
    tl.store(x + i, 1.0)

@triton.jit
def helper(BLOCK: tl.constexpr):
    return tl.arange(0, BLOCK)
"""


def answer(body, block):
    """What a clean process says of the kernel with this body and block."""
    def entry(name, line, names):
        return {"kind": "jit", "name": name, "qualname": name, "module": "candidate", "line": line, "noinline": False,
                "defaults": [], "kwdefaults": {}, "names": dict(names, tl=["module", "triton.language"])}
    recipe = {"functions": [entry("kernel", 4, {"helper": ["function", 1]}), entry("helper", 9 + body.count("\n"), {})],
              "entry": 0, "name": "kernel", "signature": [["x", "*fp32"], ["BLOCK", "constexpr"]],
              "constants": [[[1], ["scalar", block]]], "attrs": [], "options": {}}
    return rebuild.rebuild_all(rebuild.prepare(KERNEL.format(body)), [json.dumps(recipe)], 90)[0]


for body in ("i = tl.arange(0, BLOCK)", "i = helper(BLOCK)", "i = tl.zeros((BLOCK,), tl.int32)",
             "i = tl.full((2, BLOCK), 0, tl.int32)"):
    check(f"a power of two is taken: {body}", "fault" not in answer(body, 64))
    check(f"what is none is refused by Triton: {body}", answer(body, 48).get("block") is True)
for body in ("tl.static_assert((BLOCK & (BLOCK - 1)) == 0, \"arange's range must be a power of 2\")\n    i = 0",
             "tl.static_assert(BLOCK == 64, \"Shape element 0 must be a power of 2\")\n    i = 0",
             "i = tl.arange(BLOCK, 0)", "i = tl.zeros((1 << 21,), tl.int32)", "i = nothing_of_this_name"):
    said = answer(body, 48)
    check(f"other refusals are no such: {body.split(chr(10))[0]}", said.get("fault") and said["block"] is False)

# ---- trials in place of ordinary ones ----

TASK = """import torch
import torch.nn as nn
N, D = 6, {d}
class Model(nn.Module):
    def forward(self, x):
        return x.view(N, 2, -1).sum(1)
def get_inputs():
    return [torch.rand(N, D)]
def get_init_inputs():
    return []
"""


def session(source, asks):
    """The answers to some questions."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    thread = threading.Thread(target=oracle_sized.serve, args=({"source": source, "init_seed": 42}, theirs))
    thread.start()
    answers = []
    for ask in asks:
        wire.send(ours, ask)
        said = []
        while not said or "end" not in said[-1]:
            message, fds = wire.recv(ours)
            said.append(dict(message, fds=len(fds)))
            for fd in fds:
                os.close(fd)
        answers.append(said)
    ours.close()
    thread.join()
    return answers


def ask(width, like):
    sizes = {"N": 6, "D": width}
    return {"side": "at", "sets": [[sizes[s.name] for s in oracle_sized.sites_of(TASK.format(d=10))]], "like": like,
            "seed": 7, "probe": 5}


shape_of = lambda message: message["variant"]["job"]["inputs"][0]["tensor"]["shape"]
described, stock, mixed, odd, large = session(TASK.format(d=10), [ask(4, ""), ask(4, "stock"), ask(4, "sign-mixed"),
                                                                  ask(5, ""), ask(1 << 24, "")])
check("sizes are described", len(described) == 2 and shape_of(described[0]) == [6, 4])
check("with what was changed", described[0]["variant"]["changed"] == {"D": [10, 4]})
check("and without a trial", "skipped" in described[0]["trial"] and described[0]["fds"] == 0)
check("a trial has the distribution that it stands for",
      [t[0]["trial"]["distribution"] for t in (stock, mixed)] == ["stock", "sign-mixed"])
check("and its data", all(t[0]["fds"] == 2 and shape_of(t[0]) == [6, 4] for t in (stock, mixed)))
check("all of them end well", [said[-1]["end"] for said in (described, stock, mixed)] == [""] * 3)
check("sizes that the reference does not take have no description", len(odd) == 1 and "RuntimeError" in odd[0]["end"])
check("nor have sizes that are too large", len(large) == 1 and "MiB" in large[0]["end"])

# What an ordinary trial may weigh, what stands for it may, and twice as much.
own = 1 << 20
twice, more, named = session(TASK.format(d=own), [ask(2 * own, ""), ask(3 * own, ""),
                                                  {"side": "at", "sets": ask(own + 2, "")["sets"], "seed": 7}])
check("twice the size of the task itself is not too large", len(twice) == 2 and shape_of(twice[0]) == [6, 2 * own])
check("three times as large ones have none", len(more) == 1 and "MiB" in more[0]["end"])
check("sizes that a candidate names may not be as large", len(named) == 1 and "MiB" in named[0]["end"])

done()
