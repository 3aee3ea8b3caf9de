"""tracer_elsewhere: a second trace's calls of forward as others make them.

A trace calls one object of ModelNew, made under the init seed, from one thread, on the default
stream, without gradients, on tensors with memory of their own. None of that belongs to the task. So
the second trace makes other objects first, under other seeds, and calls one of them (`elders`); and
behind its ordinary calls it calls forward where all of it is otherwise (`check`). Each call that
comes to an end has to leave the tape of the first. What an exception ends is no result, so it says
nothing: nobody takes it for one.
"""
import contextlib
import contextvars
import ctypes
import functools
import inspect
import itertools
import json
import math
import sys
import threading
import weakref

import torch

import tracer_calls
import tracer_candidate
import tracer_chance
import tracer_cuda
import tracer_driver
import tracer_plain
import tracer_record
import tracer_users
from tracer_chance import DRAWN
from tracer_fault import Fault
from tracer_record import DTYPES
from tracer_stop import Stop

ELDERS = (6, 12)                # objects that are made before the one that counts
# Those that are called: two have the same draws mirrored, so that whatever has two equal sides goes
# the other way in one of them, and two have draws so large that bounds of weights are met.
SPREADS = (1, -1, 4096, -4096)
STATE_BYTES_MAX = 4 << 20       # of a task whose parameters are drawn for them, too
HEAD = 512                      # bytes; a view that begins further inside is as well aligned
THREADS_OWN = "thread.local."    # how CPython names what a threading.local holds in a thread


# ---- other objects of the class ----

def elders(job, module, rec, tracer):
    """Makes other objects of the class, as many as are drawn, and calls the first ones: their
    tapes, without the contents of constants. A constructor that draws nothing makes the same
    object under each seed, so one of these is called."""
    has_values = is_small(job)
    made, tapes, seed = len(rec.init_rows), [], 0
    for number in range(DRAWN.randint(*ELDERS) if has_values else 1):
        tracer_plain.SHELL.spread = SPREADS[number] if number < len(SPREADS) else 1
        tracer_plain.SHELL.spreads = 0
        if tracer_plain.SHELL.spread > 0:
            seed = tracer_plain.SHELL.seed = DRAWN.randrange(1 << 32, 1 << 40)
        with contextlib.suppress(Exception):
            values = contextlib.nullcontext() if has_values else tracer_candidate.without_values()
            with values:
                elder = tracer_candidate.build(job, module, seed=seed)
            tracer_plain.SHELL.spread = 1
            if number < len(SPREADS) and (number == 0 or has_drawn(seed)):
                # The first one's parameters are parts of larger memory, as an optimizer lays them.
                tracer_plain.SHELL.flat = 0 if number else HEAD * DRAWN.randint(1, 4)
                tracer_candidate.place(job, elder, tracer)
                tapes.append(called(job, rec, tracer, elder))
        # What it left is not the next one's.
        tracer_plain.SHELL.flat = 0
        refused = rec.fault
        tracer.phase, rec.epoch, rec.fault = "import", 0, None
        del rec.init_rows[made:]
        if refused and refused[0].code == "unsupported":
            rec.fault = refused
            raise refused[0]
    tracer_plain.SHELL.spread = 1
    return tapes if has_values else []


def has_drawn(seed):
    """Whether the generator that an object's seed was given to has been drawn from since."""
    fresh = torch.Generator().manual_seed(seed)
    return tracer_chance.state_of(torch.default_generator) != tracer_chance.state_of(fresh)


def called(job, rec, tracer, elder):
    tracer.phase, rec.epoch = "forward", rec.calls
    calls = tracer_calls.Calls(job, rec, tracer, elder)
    calls.prepare("fresh")
    tape = calls.tape()
    calls.finish()
    # Whoever finds this object's parameters later has another's.
    for t in tracer_calls.tensors_in(list(elder.state_dict(keep_vars=True).values()), []) if isinstance(
            elder, torch.nn.Module) else ():
        buf = tracer_plain.SHELL.buffer_of(t)
        if buf is not None and buf.name is not None:
            buf.name += " of another object"
    return tape


def difference():
    return Stop("nondeterministic", "Fault",
                "another object of the class, made under another seed and called before, did other work: what "
                "forward does may depend neither on the values of parameters nor on other objects")


def place_another(calls, **built):
    """Makes another object of the class, with its parameters where the job says; None where its
    constructor fails."""
    values = contextlib.nullcontext() if is_small(calls.job) else tracer_candidate.without_values()
    with contextlib.suppress(Exception), values:
        other = tracer_candidate.build(calls.job, sys.modules[tracer_candidate.CANDIDATE], **built)
        tracer_candidate.place(calls.job, other, calls.tracer)
        return other


def is_small(job):
    """Whether a task's parameters are few enough to be drawn for each object."""
    return sum(math.prod(e["shape"]) * DTYPES[e["dtype"]].itemsize for e in job.get("state", {}).values()
               if e["dtype"] in DTYPES) <= STATE_BYTES_MAX


# ---- other callers ----

def thread_dict():
    """What this thread holds for threading.local."""
    get = ctypes.pythonapi.PyThreadState_GetDict
    get.restype = ctypes.c_void_p
    return ctypes.cast(get(), ctypes.py_object).value


@contextlib.contextmanager
def in_another_thread():
    """What Python says of the thread is what it says of one that started just now: its name and
    number, nothing in threading.local or in context variables, and another stream is current."""
    held, active = thread_dict(), threading._active
    own = {key: held.pop(key) for key in list(held) if str(key).startswith(THREADS_OWN)}
    before, stream = dict(active), tracer_cuda.Stream()
    main = threading.main_thread()
    worker = threading.Thread(name=f"Thread-{DRAWN.randrange(2, 40)} (run)")
    worker._ident, worker._native_id = main._ident, main._native_id + 1
    worker._started.set()
    active[main._ident ^ 1] = main
    active[main._ident] = worker
    tracer_cuda.CURRENT[0] = tracer_cuda.CALLER[0] = stream
    try:
        yield
    finally:
        tracer_cuda.CURRENT[0] = tracer_cuda.CALLER[0] = tracer_cuda.DEFAULT
        active.clear()
        active.update(before)
        for key in [key for key in held if str(key).startswith(THREADS_OWN)]:
            del held[key]
        held.update(own)


@contextlib.contextmanager
def set_to(*places):
    """(owner, name, value) for a while."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextlib.contextmanager
def under_a_server():
    """Inference mode, while a graph is captured or compiled, under a profiler, with hooks on the
    module, whose parameters are frozen."""
    yes = lambda *args, **kwargs: True
    # What the server sets on the module and in torch, and what it says of its mode.
    hooks = [MODEL[0].register_forward_hook(lambda *args: None),
             MODEL[0].register_forward_pre_hook(lambda *args: None)] if MODEL else []
    strict = torch._C._get_deterministic_algorithms()
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    trained = [p for p in MODEL[0].parameters() if p.requires_grad] if MODEL else []
    try:
        for p in trained:
            p.requires_grad_(False)
        with torch.inference_mode(), set_to(
                (torch.cuda, "is_current_stream_capturing", yes), (torch.compiler, "is_compiling", yes),
                (torch.compiler, "is_exporting", yes), (torch.jit, "is_tracing", yes),
                (torch._C, "_is_tracing", yes), (torch._C, "_get_tracing_state", yes),
                (torch._C._autograd, "_profiler_enabled", yes), (torch.autograd, "_profiler_enabled", yes),
                (torch, "is_anomaly_enabled", yes)):
            yield
    finally:
        torch._C._set_deterministic_algorithms(strict)
        for p in trained:
            p.requires_grad_()
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def with_gradients(made_by):
    """As in training: inputs are parameters or an earlier layer's results, parameters have
    gradients and hooks, and torch keeps what a backward pass would need."""
    own = [p for p in MODEL[0].parameters() if p.requires_grad and p.grad is None] if MODEL else []
    hooks = [p.register_hook(lambda gradient: None) for p in own]
    tracer_plain.SHELL.made_by = made_by
    try:
        for p in own:
            p.grad = p.detach()
        with torch.enable_grad():
            yield
    finally:
        tracer_plain.SHELL.made_by = None
        for p, hook in zip(own, hooks):
            p.grad = None
            hook.remove()


class Layer(torch.autograd.Function):
    """What an earlier layer does: its result is no leaf of the graph."""

    @staticmethod
    def forward(ctx, t, weight):
        ctx.mark_dirty(t)
        return t

    @staticmethod
    def backward(ctx, gradient): return gradient, None


def of_a_layer(t):
    out = Layer.apply(t, torch.ones(1, requires_grad=True))
    if out.requires_grad:
        out.retain_grad()
    return out


@contextlib.contextmanager
def in_the_other_mode():
    """train() for eval(), and the other way round."""
    modules = [(m, m.training) for m in MODEL[0].modules()] if MODEL else []
    for module, training in modules:
        module.training = not MODEL[0].training
    try:
        yield
    finally:
        for module, training in modules:
            module.training = training


def tells_names(calls):
    """Whether forward can tell how its arguments come, or that it is called by itself."""
    kinds = {p.kind for p in inspect.signature(calls.model.forward).parameters.values()}
    return (inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds
            or tracer_candidate.has_own(calls.model, "__call__", "_call_impl", "_wrapped_call_impl"))


@contextlib.contextmanager
def by_names(calls):
    """forward itself, and its arguments by the names that the task gives them."""
    module, names = calls.model, calls.job.get("names", [])

    def call(*args, **kwargs):
        has_names = len(names) >= len(args)
        return module.forward(**dict(zip(names, args)), **kwargs) if has_names else module(*args, **kwargs)
    calls.model = Called(module, call)
    try:
        yield
    finally:
        calls.model = module


class Called:
    """A module that is called in another way, and is itself in all else."""

    def __init__(self, module, call):
        self.module, self.call = module, call

    def __call__(self, *args, **kwargs): return self.call(*args, **kwargs)
    def __getattr__(self, name): return getattr(self.module, name)


MODEL = []
# What host code may know and must be right in: a call that leaves another tape is judged by its
# values (src/verify/mode_step.c).
BARE = ("", contextlib.nullcontext)
GRADIENTS = (("with gradients", lambda: with_gradients(torch.nn.Parameter)),
             ("with gradients, behind a layer", lambda: with_gradients(of_a_layer)))
INFERENCE = ("in inference mode", torch.inference_mode)
CASTS = (("under autocast", lambda: torch.autocast("cuda", torch.bfloat16)),
         ("under autocast to fp16", lambda: torch.autocast("cuda", torch.float16)))
PRODUCTS = ("where products may be in tf32", lambda: products_in_tf32())
OTHER_MODE = ("in the other mode of train() and eval()", in_the_other_mode)


def drawn_modes():
    """(mode of train() and eval(), cast, gradients) of each call: one of each kind alone, all pairs
    of a cast with gradients, half of them in the other mode, and a cast in inference mode. Which of
    a kind is alone, and in which mode a pair is, is drawn: all of them together take as long as
    everything else that a second trace does."""
    casts, gradients = DRAWN.sample(CASTS, 2), DRAWN.sample(GRADIENTS, 2)
    yield BARE, BARE, gradients[0]
    yield BARE, casts[0], BARE
    yield PRODUCTS, BARE, BARE
    yield OTHER_MODE, BARE, BARE
    for number, (cast, gradient) in enumerate(itertools.product(casts, gradients)):
        yield (OTHER_MODE if number in (0, 3) else BARE), cast, gradient
    yield DRAWN.choice((BARE, OTHER_MODE)), casts[1], INFERENCE


@contextlib.contextmanager
def products_in_tf32():
    """Whoever wants products of matrices to be fast says so to torch, and kernels may follow; of
    convolutions torch's own default says the opposite."""
    before, cudnn = torch.get_float32_matmul_precision(), torch._C._get_cudnn_allow_tf32()
    torch.set_float32_matmul_precision("highest" if before != "highest" else "high")
    torch._C._set_cudnn_allow_tf32(not cudnn)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch._C._set_cudnn_allow_tf32(cudnn)


@contextlib.contextmanager
def begins_anywhere(calls):
    """Inputs, and the parameters of an object made alike, are views that begin at no multiple of 16
    bytes. The object stays, called, as one that was made since."""
    rec, tracer, shell = calls.rec, calls.tracer, tracer_plain.SHELL
    phase, epoch, made, model = tracer.phase, rec.epoch, len(rec.init_rows), calls.model
    tracer.phase, rec.epoch = "import", 0
    shell.flat = 16 * DRAWN.randint(64, 4096) + 8
    try:
        if is_small(calls.job):
            calls.younger = place_another(calls)
            calls.model = calls.younger or model
        shell.head, tracer_driver.IS_ANYWHERE = shell.flat, True
        shell.flat, tracer.phase, rec.epoch, calls.ended = 0, phase, epoch, len(rec.rows)
        yield
    finally:
        shell.flat, tracer.phase, tracer_driver.IS_ANYWHERE, calls.model = 0, phase, False, model
        del rec.init_rows[made:]


@contextlib.contextmanager
def beside_a_younger(calls):
    """Behind the making, and a call, of another object of the class: the one that is there, or one
    without values where an object takes much memory."""
    rec, tracer = calls.rec, calls.tracer
    if not calls.younger:
        phase, epoch, made = tracer.phase, rec.epoch, len(rec.init_rows)
        tracer.phase, rec.epoch = "import", 0
        calls.younger = place_another(calls, seed=DRAWN.randrange(1 << 32, 1 << 40))
        if calls.younger:
            called(calls.job, rec, tracer, calls.younger)
        tracer.phase, rec.epoch, calls.ended = phase, epoch, len(rec.rows)
        del rec.init_rows[made:]
    yield


@contextlib.contextmanager
def all_of(parts):
    with contextlib.ExitStack() as stack:
        for _, around in parts:
            stack.enter_context(around())
        yield


def modes(calls, bare):
    """[name, tape, ...] of the modes in which forward does other work; a tape that another mode has
    left already is judged there, as far as the same is asked of it."""
    found, seen = [], set()
    anywhere = BARE, BARE, ("on views that begin anywhere", functools.partial(begins_anywhere, calls))
    for parts in (anywhere, *drawn_modes()):
        name = ", ".join(part for part, _ in parts if part)
        tape = contextvars.Context().run(once, calls, 0, functools.partial(all_of, parts))
        if tape is None or tape == bare:
            continue
        tape = dict(tape, buffers=[dict(b) for b in tape["buffers"]])
        with contextlib.suppress(Stop, Fault):
            tracer_record.add_constants(calls.rec, tape)
            text = json.dumps(tape, separators=(",", ":"))
            if (text, *(bool(part) for part, _ in parts[:2])) not in seen:
                found += [name, text]
            seen.add((text, *(bool(part) for part, _ in parts[:2])))
    return found


def check(calls, bare):
    """One call more for each kind of caller; what modes() says."""
    MODEL[:] = [calls.model] if isinstance(calls.model, torch.nn.Module) else []
    by_name = [("by the names of its arguments", 0, functools.partial(by_names, calls))] if tells_names(calls) else []
    for caller in (("from another thread and stream, on views", HEAD, in_another_thread),
                   ("in inference mode, under a profiler or while it is captured", 0, under_a_server),
                   ("in a process that is set otherwise than by default", 0, tracer_users.set_otherwise),
                   ("in a process whose limits are lower", 0, tracer_users.set_lower), *by_name):
        expect_bare(calls, bare, *caller)
    found = modes(calls, bare)
    expect_bare(calls, bare, "when another object of the class had been made since", 0,
                functools.partial(beside_a_younger, calls))
    return found


def expect_bare(calls, bare, what, head, around):
    tape = contextvars.Context().run(once, calls, head, around)
    if tape is not None and tape != bare:
        raise Stop("nondeterministic", "Fault",
                   f"forward did other work when it was called {what}: what it does may not depend on that")


def once(calls, head, around):
    """The tape of one call, or None where it ends in an exception."""
    rec = calls.rec
    try:
        tracer_plain.SHELL.head = head
        with around():
            calls.prepare("fresh")
            # A caller may keep an eye on what it hands over.
            watched = [weakref.ref(t) for t in tracer_calls.tensors_in([calls.args, calls.kwargs], [])] if head else []
            tape = calls.tape()
            watched.clear()
            return tape
    except Stop:
        return None
    finally:
        tracer_plain.SHELL.head = 0
        refused, rec.fault, rec.failed, calls.ended = rec.fault, None, None, len(rec.rows)
        if refused and refused[0].code == "unsupported" and (rec.is_refused or "belongs to the process"
                                                             in refused[0].text):
            rec.fault = refused
