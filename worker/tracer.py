"""tracer: runs one candidate's host code on tensors without contents and sends the tape of its
forward.

Runs in a sandboxed process forked from the zygote. What it sends is hostile: a candidate shares
this process and may write to the socket itself. The supervisor takes nothing from here but a tape,
which tape_parse validates, and a fault, which is text.

tracer_candidate.py makes the candidate's object, tracer_calls.py calls it, tracer_stop.py says what
ended a trace. The second trace of a candidate goes through the same functions on plain tensors
(tracer_plain.py).
"""
import functools
import gc
import json
import linecache
import sys

import torch
import triton.testing

import tracer_calls
import tracer_candidate
import tracer_chance
import tracer_clocks
import tracer_codes
import tracer_cuda
import tracer_disguise
import tracer_driver
import tracer_elsewhere
import tracer_movement
import tracer_plain
import tracer_probe
import tracer_process
import tracer_record
import tracer_seal
import tracer_sizes
import tracer_state
import tracer_tables
import tracer_tensor
import tracer_users
import wire
from tracer_record import SOURCE_NAME
from tracer_stop import Stop, guarded

TAPE_TEXT_MAX = 64 << 20
PADS = []      # memory between the objects of one trace and the next


def run(job, sock):
    """The zygote's entry. Sends phases, then one result; then one more whenever the supervisor
    asks: for the next of the job's `others`, or, where the job says that it stays, for sizes that
    come with the question."""
    tracer_cuda.DRAWN.seed()
    tracer_sizes.FIRST[0] = None
    if job.get("plain"):
        tracer_plain.install(job["plain"])
        tracer_seal.begin(tracer_driver.TracedKernel, functools._lru_cache_wrapper, triton.testing)
    else:
        tracer_clocks.install_first()
    tracer_driver.remember(job.get("kernels", ()))
    if job.get("asks"):
        tracer_driver.ASK = functools.partial(ask, sock)
    wire.send(sock, result_of(job, sock))
    others = list(job.get("others", []))
    while others or job.get("stays"):
        question, _ = wire.recv(sock)
        own = {k: v for k, v in job.items() if k != "others"}
        other = question.get("job") or dict(others.pop(0), earlier=own)
        # Sizes in place of those before, at which the candidate was refused: it is asked what
        # it was to be asked there.
        if question.get("stands"):
            other = dict(other, earlier=own)
        if question.get("returns"):
            tracer_sizes.RETURNED.clear()
        wire.send(sock, result_of(dict(own, is_other=True, **other), sock))


def ask(sock, recipe):
    """The IR of a recipe as a clean process makes it; None where that says nothing."""
    wire.send(sock, {"compile": recipe})
    answer, _ = wire.recv(sock)
    return answer.get("ttir")


def result_of(job, sock):
    phase = ["import"]

    def announce(name):
        phase[0] = name
        wire.send(sock, {"phase": name})

    try:
        tracer_driver.choose(job.get("choices", {}))
        if "probe" in job:
            return {"probe": guarded(tracer_record.Recorder(), "unsupported",
                                     lambda: tracer_probe.probe(job))}
        rec = tracer_record.Recorder()
        return {"tape": trace(job, rec, announce), "tuned": tracer_driver.tuned(), "modes": rec.modes,
                "empty": rec.empty}
    except Stop as stop:
        return {"fault": dict(stop.fault, phase=phase[0])}


def trace(job, rec, announce):
    tracer = tracer_tensor.Tracer(rec, tracer_movement.HANDLERS)
    tracer_tensor.TRACER = tracer
    tracer_driver.RECORDER, tracer_driver.TURN = rec, job.get("config", 0)
    tracer_driver.IS_LATER = job.get("later", False)
    if tracer_plain.SHELL:
        tracer.mode, tracer.shell = tracer_plain.PlainMode, tracer_plain.SHELL
    tracer_cuda.begin(rec)
    if "gpu" in job:
        tracer_cuda.set_card(job["gpu"])
    # torch.tensor(..., device="cuda") then reaches the dispatcher as a move
    torch._C._set_only_lift_cpu_tensors(True)
    with torch.no_grad(), tracer.mode():
        announce("import")
        if "earlier" in job:
            tracer_sizes.check_return_once(job, rec, tracer)
        module = guarded(rec, "import-error",
                         lambda: tracer_candidate.load_candidate(job["source"], tracer_probe.code_of(job)))
        guarded(rec, "unsupported", lambda: tracer_chance.check_generators(is_seeded=True))
        announce("init")
        move_memory()
        before = ()
        if tracer_plain.SHELL:
            before = guarded(rec, "init-error", lambda: tracer_elsewhere.elders(job, module, rec, tracer))
        earlier = job.get("earlier")
        is_behind = earlier and not job.get("shapes_only")
        model = tracer_sizes.call_at(job, earlier, module, rec, tracer) if is_behind else None
        if model is None:
            model = guarded(rec, "init-error", lambda: tracer_candidate.build(job, module))
            tracer_candidate.place(job, model, tracer)
        announce("forward")
        rec.epoch, tracer.phase = rec.calls, "forward"
        return trace_forwards(job, rec, tracer, model, before)


def move_memory():
    """What is made next lies elsewhere than in another trace: Python serves small objects from
    pools of their size, in order of address."""
    for size in range(48, 513, 16):
        PADS.append([bytes(size - 33) for _ in range(tracer_cuda.DRAWN.randrange(64))])


# ---- forwards ----

# What each call of the first trace does before forward. Every counted one has to leave the tape of
# the first.
#   fresh     new tensors
#   same      the tensors of the call before, unchanged, its outputs alive
#   changed   the same tensors, written in place since
#   released  new tensors, and all outputs of former calls are gone
#   strided   new tensors with other strides; what comes of it does not matter, only what it leaves
#             behind
CALLS = ("fresh", "fresh", "same", "changed", "strided", "fresh", "same", "released", "changed", "fresh", "same",
         "released")
SETTLED_CALLS = (6, 7)       # after these two the host code's memory is compared
PLAIN_CALLS = ("fresh", "same", "released")


def trace_forwards(job, rec, tracer, model, before=()):
    """`before`: tapes of other objects of the class that were called before."""
    calls = tracer_calls.Calls(job, rec, tracer, model)
    first = bare = state = None
    made = []                # of constants, by the call that made most: the first may fill a cache of them
    for number, kind in enumerate(PLAIN_CALLS if tracer_plain.SHELL else CALLS):
        calls.prepare(kind)
        if kind == "strided":
            calls.disturb()
            continue
        tape = calls.tape()
        # The first call's tape is the result; the others are compared with it.
        if first is None:
            if any(elders != tape for elders in before):
                raise tracer_elsewhere.difference()
            tracer_sizes.FIRST[0] = tracer_sizes.FIRST[0] or dict(tape, rows=list(tape["rows"]))
            bare, first = tape, dict(tape, buffers=[dict(b) for b in tape["buffers"]])
            guarded(rec, "too-large", lambda: tracer_record.add_constants(rec, first))
            continue
        if tape != bare:
            raise tracer_calls.difference(bare, tape, number + 1)
        made = max(made, rec.made, key=lambda m: sum(size for _, size in m))
        if number == 1:
            guarded(rec, "too-large", lambda: tracer_record.add_constants(rec, tape))
            if tape["buffers"] != first["buffers"]:
                raise Stop("nondeterministic", "Fault",
                           f"forward {number + 1} used other constants than the first: it depends on random numbers "
                           f"or on earlier calls")
        # Counters that no call above reached the end of: by now nothing may change from call to
        # call.
        if number + 1 not in SETTLED_CALLS:
            continue
        try:
            before, state = state, tracer_state.snapshot(
                model, sys.modules[tracer_candidate.CANDIDATE], [calls.args, calls.kwargs], not job.get("is_other"))
        except tracer_state.Replaced as name:
            raise Stop("unsupported", "Fault", f"host code puts something else in the place of {name}, which others "
                       "call, too") from None
        except tracer_state.Unseen as thing:
            raise Stop("unsupported", "Fault", f"host code keeps {thing}: what that remembers cannot be seen") from None
        changed = before and tracer_state.difference(before, state)
        if changed:
            raise Stop("nondeterministic", "Fault",
                       f"every call of forward changes {changed}: what a call does may not depend on how often or "
                       f"when it is called")
    if tracer_plain.SHELL:
        rec.modes = guarded(rec, "unsupported", lambda: tracer_elsewhere.check(calls, bare))
    calls.finish()
    guarded(rec, "unsupported", lambda: tracer_chance.check_generators(is_seeded=False))
    guarded(rec, "unsupported", lambda: tracer_driver.refuse_changes(tracer_seal.broken()))
    tracer_record.add_made(first, made)
    text = json.dumps(first, separators=(",", ":"))
    if len(text) > TAPE_TEXT_MAX:
        raise Stop("too-large", "Fault", f"the tape has {len(text)} bytes; the limit is {TAPE_TEXT_MAX}")
    return text


# ---- warming, in the zygote ----

WARM_SOURCE = '''
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def warm_kernel(x, y, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    s = tl.sum(tl.exp(v - tl.max(v, axis=0)), axis=0)
    for k in range(0, 2):
        v += k * scale
    tl.store(y + i, tl.where(v > 0, v / s, tl.sigmoid(v)), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = x.contiguous().view(-1, 4)
        y = torch.empty_like(x)
        n = x.numel()
        warm_kernel[(triton.cdiv(n, 64),)](x, y, n, 2.0, BLOCK=64)
        z = torch.zeros(n, device=x.device, dtype=torch.float32)
        warm_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](y, z, n, 2.0, BLOCK=64, num_warps=2)
        # torch's own operators: common answers hold them, and their first use imports a lot
        y = F.linear(z.view(-1, 4), self.linear.weight) * 2 + 1
        y = F.gelu(torch.softmax(F.layer_norm(F.relu(y), (4,)), dim=-1))
        y = y.masked_fill(y > 0, 0.0).sum(dim=0, keepdim=True) @ torch.arange(4, device=y.device).float()[:, None]
        return F.conv2d(y[None, None], y[None, None]).reshape(-1).contiguous()
'''


def warm(times=1):
    """Installs the stand-ins and traces one small candidate so many times: forks find every module
    imported, every table built and what runs often made faster."""
    import numpy
    import torch._prims_common
    import torch.nn.functional    # imported in front of all forks, as the next
    import triton.language.extra.libdevice    # candidates' too
    del numpy
    tracer_candidate.remember_libraries()
    tracer_cuda.install()
    tracer_driver.install()
    tracer_tensor.install()
    job = {"source": WARM_SOURCE, "init_args": [], "state": {},
           "inputs": [{"tensor": {"dtype": "float32", "shape": [2, 3, 4], "stride": [12, 4, 1]}}]}
    # A trace looks through all objects that are young, which in a job are few.
    gc.freeze()
    for _ in range(times - 1):
        trace(job, tracer_record.Recorder(), lambda name: None)
    with tracer_codes.Running() as codes:
        trace(job, tracer_record.Recorder(), lambda name: None)
    gc.unfreeze()
    if times > 1:
        tracer_codes.move(codes)
    # What tells a trace from a run is put away when all of it is there.
    tracer_tensor.TRACER = tracer_driver.RECORDER = tracer_sizes.FIRST[0] = None
    tracer_cuda.begin(None)        # the last of this trace goes here and not in every fork
    tracer_disguise.install()
    tracer_seal.install()
    tracer_tables.install()
    tracer_users.install()
    tracer_process.HIDDEN[:] = tracer_process.own_names()
    tracer_candidate.LIBRARIES.clear()      # what was imported on the way defined operators of torch's own: they stay
    del sys.modules["candidate"], linecache.cache[SOURCE_NAME]
    gc.freeze()      # what the seals have collected the zygote need not look through again
