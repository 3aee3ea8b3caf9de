"""How often a candidate's traces compile: each kernel once in the first trace, however many sizes
launch it, and in the second trace not at all, since a clean process has made those kernels; but
there too where host code has changed what compiles them.

The traces run here as the zygote's jobs do, forked from one warm process, without a sandbox."""
import gc
import json
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
import tracer_driver
import wire

SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
CARD = dict(name="H200", capability=90, sms=132, shared_bytes=232448, memory_bytes=1 << 37, l2_bytes=1 << 26,
            clock_hz=1.98e9, dram_bytes_s=4.8e12, bus_bits=6144, l1_bytes=1 << 18, registers=65536, threads=2048)


def inputs(rows, columns):
    return {"inputs": [{"tensor": {"dtype": "float32", "shape": [rows, columns], "stride": [columns, 1]}}]}


JOB = dict(inputs(16, 1024), **{"class": "ModelNew", "init_seed": 42, "init_args": [], "state": {}, "gpu": CARD})


def traced(source, **more):
    """(results, how many kernels were compiled) of one job, in a process of its own."""
    ours, its = socket.socketpair()
    job = dict(JOB, source=source, **more)
    pid = os.fork()
    # In the child: the tracer, with a compiler that counts.
    if pid == 0:
        gc.disable()
        ours.close()
        compiled, real = [], tracer_driver.ttir_text

        def ttir_text(*args):
            compiled.append(1)
            return real(*args)
        tracer_driver.ttir_text = ttir_text
        try:
            tracer.run(job, its)
        finally:
            wire.send(its, {"compiled": len(compiled)})
            os._exit(0)
    # Here: the supervisor's part, which asks for each further set of inputs.
    its.close()
    results = []
    while True:
        message, _ = wire.recv(ours)
        if "compiled" in message:
            os.waitpid(pid, 0)
            return results, message["compiled"]
        if "phase" not in message:
            results.append(message)
            if len(results) <= len(job.get("others", [])):
                wire.send(ours, {"next": True})


count = 0


def check(ok, name):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)


tracer.warm()
# 16 divides the first count of elements and the third, which makes one kernel; not the second
results, compiled = traced(SOURCE, others=[inputs(13, 777), inputs(16, 1088)])
tapes = [json.loads(r["tape"]) for r in results if "tape" in r]
check(len(tapes) == 3, f"a first trace has three sizes: {[r.get('fault') for r in results]}")
check(compiled == 2, f"and compiles its two kernels once each: {compiled}")
known = [[k["source"], k["ttir"]] for k in tapes[0]["kernels"]]
results, compiled = traced(SOURCE, plain=77, kernels=known)
check(results[0].get("tape") == json.dumps(tapes[0], separators=(",", ":")), "the second trace has the same tape")
check(compiled == 0, f"and compiles nothing that is known: {compiled}")
results, compiled = traced(SOURCE, plain=77)
check(compiled == 1, f"what is not known it compiles: {compiled}")
# As known as before: the recipe names a function of Triton's, which means something else by now.
results, compiled = traced(f"{SOURCE}\n\ntl.maximum = tl.minimum\n", plain=77, kernels=known)
check(compiled == 1 or "fault" in results[0], f"it compiles behind a changed front end: {compiled}")
results, compiled = traced(f"{SOURCE}\n\ntriton.compiler.compiler.CompiledKernel.n_regs = 7\n", plain=77,
                           kernels=known)
check("n_regs" in results[0].get("fault", {}).get("text", ""),
      f"and refuses who changes what the second trace has set: {str(results[0])[:200]}")
print(f"1..{count}")
