"""What host code keeps of the sizes of other calls: under each part of the sizes, in the module or
in the object, of the first call or of the last. Behind calls at smaller sizes the task's own then
have another tape; what is kept under all sizes is nobody's mistake.

The traces run here as the zygote's jobs do, forked from one warm process, without a sandbox."""
import gc
import itertools
import os
import socket
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.argv = ["zygote.py", "tracer", os.path.join(BUILD, "libhone_sandbox.so")]
import zygote

zygote.Sandbox(sys.argv[2])      # before torch, as the zygote does
import tracer
import wire

SOURCE = """import functools
import math
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


KEPT = {{}}
LAST = [None, None]


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept, self.last = {{}}, [None, None]

    def forward(self, x):
        {names} = x.shape
        key, value = {key}, {value}
        {keep}
        y = torch.empty_like(x)
        kernel[(kept,)](x, y, x.numel(), BLOCK=256)
        return y
"""
FIRST = "kept = {0}.setdefault(key, value)"
LATEST = """if {0}[0] != key:
            {0}[:] = [key, value]
        kept = {0}[1]"""
KEEPERS = {"of the first call, in the module": FIRST.format("KEPT"), "in the object": FIRST.format("self.kept"),
           "of the last call, in the module": LATEST.format("LAST"), "of it, in the object": LATEST.format("self.last")}
SHAPES = {2: ([16, 1024], [11, 719]), 3: ([6, 24, 72], [5, 19, 57])}
# (names, what a value is kept under, what it depends on)
PARTS = [(2, "0", "m"), (2, "0", "n"), (2, "m", "n"), (2, "n", "m"), (2, "m * n", "m"), (2, "m + n", "n"),
         (2, "1 << (m - 1).bit_length()", "m"), (2, "n > 600", "n"),
         (3, "0", "k"), (3, "m", "n"), (3, "m", "k"), (3, "k", "m"), (3, "(m, n)", "k"), (3, "(n, k)", "m"),
         (3, "(m, k)", "n"), (3, "(m * n, k)", "m")]
WHOLE = [(2, "(m, n)", "m * n"), (3, "(m, n, k)", "m + n + k"), (3, "x.shape", "k"), (2, "m * 4096 + n", "n")]
count = 0


def check(ok, name):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)


def inputs(shape):
    stride = [1]
    for size in shape[:0:-1]:
        stride.insert(0, stride[0] * size)
    return {"inputs": [{"tensor": {"dtype": "float32", "shape": shape, "stride": stride}}]}


def results_of(dims, key, value, keep):
    """What the two sizes' traces send."""
    own, other = SHAPES[dims]
    source = SOURCE.format(names=", ".join("mnk"[:dims]), key=key, value=value, keep=keep)
    job = {**inputs(own), "class": "ModelNew", "init_seed": 42, "init_args": [], "state": {}, "source": source,
           "others": [inputs(other)]}
    ours, its = socket.socketpair()
    pid = os.fork()
    # In the child: the tracer.
    if pid == 0:
        gc.disable()
        ours.close()
        try:
            tracer.run(job, its)
        finally:
            os._exit(0)
    # Here: the supervisor's part, which asks for the other sizes.
    its.close()
    results = []
    while len(results) < 2 and not any("fault" in r for r in results):
        message, _ = wire.recv(ours)
        if "phase" not in message:
            results.append(message)
            wire.send(ours, {"next": True})
    ours.close()
    os.waitpid(pid, 0)
    return results


tracer.warm()
for (dims, key, value), (where, keep) in itertools.product(PARTS, KEEPERS.items()):
    *_, last = results_of(dims, key, value, keep)
    fault = last.get("fault", {})
    check(fault.get("code") == "nondeterministic" and "behind a call at smaller sizes" in fault["text"],
          f"{dims} sizes, {value} under {key}, {where}: {fault.get('code')}")
for (dims, key, value), (where, keep) in itertools.product(WHOLE, KEEPERS.items()):
    results = results_of(dims, key, value, keep)
    check(len(results) == 2 and all("tape" in r for r in results),
          f"{dims} sizes, {value} under {key}, {where}: {[r.get('fault') for r in results]}")
print(f"1..{count}")
