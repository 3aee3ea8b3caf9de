"""How often a candidate's traces compile: each kernel once in the first trace, however many sizes
launch it, and not at all where a clean process makes them: a first trace asks for them, the second
is given them. But both do where host code has changed what compiles them, or where a recipe does
not say all that the compiler sees.

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


def traced(source, known=None, **more):
    """(results, how many kernels were compiled) of one job, in a process of its own. `known`:
    recipe -> IR, what a first trace may ask for."""
    ours, its = socket.socketpair()
    job = dict(JOB, source=source, asks=known is not None, **more)
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
        if "compile" in message:
            ASKED.append(message["compile"])
            wire.send(ours, {"ttir": known.get(message["compile"])})
        elif "phase" not in message:
            results.append(message)
            if len(results) <= len(job.get("others", [])):
                wire.send(ours, {"next": True})


ASKED = []      # recipes
count = 0


def check(ok, name):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)


# Cycles that nobody has collected when the seals are made, and that the
# zygote collects behind them.
gc.disable()
tracer.warm()
gc.collect()
check(not tracer.tracer_seal.broken_front(), f"what was garbage breaks no seal: {tracer.tracer_seal.broken_front()}")
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
# A first trace asks once for each recipe, by the words that the tape then has.
texts = {k["source"]: k["ttir"] for tape in tapes for k in tape["kernels"]}
sizes = [inputs(13, 777), inputs(16, 1088)]
results, compiled = traced(SOURCE, known=texts, others=sizes)
check([json.loads(r["tape"]) for r in results] == tapes, "a first trace that asks has the same tapes")
check((compiled, ASKED) == (0, list(texts)),
      f"it compiles nothing and asks for each kernel once: {compiled}, {len(ASKED)}")
results, compiled = traced(SOURCE, known={}, others=sizes)
check(compiled == 2 and [json.loads(r["tape"]) for r in results] == tapes, f"what nobody makes it compiles: {compiled}")
ASKED.clear()
# What the compiler would see besides, or see otherwise: it does not ask.
HEAD = "from triton.compiler.code_generator import CodeGenerator\n"
for name, end in (
        ("a name of Triton's", "tl.maximum = tl.minimum"),
        ("a table of the front end's", "CodeGenerator.builtin_namespace['len'] = max"),
        ("a set of Python's", "import inspect\ninspect.tokenize.single_quoted.add('x')"),
        ("a list of the front end's", "tl.dtype.SINT_TYPES.append('int9')"),
        ("a function's defaults", "CodeGenerator.visit_Name.__defaults__ = ()"),
        ("the kernel's own text", "kernel._unsafe_update_src(kernel.src.replace('0.0', '0.5'))"),
        ("the kernel's name", "kernel._fn_name = 'candidate.other'")):
    results, compiled = traced(f"{HEAD}{SOURCE}\n\n{end}\n", known=texts)
    check(compiled == 1 and not ASKED, f"{name} is another: compiled by itself ({compiled}, {len(ASKED)} asked, "
          f"{str(results[0].get('fault'))[:120]})")
print(f"1..{count}")
