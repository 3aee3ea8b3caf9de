"""tracer: runs one candidate's host code on tensors without contents and sends the tape of its
forward.

Runs in a sandboxed process forked from the zygote. What it sends is hostile: a candidate shares
this process and may write to the socket itself. The supervisor takes nothing from here but a tape,
which tape_parse validates, and a fault, which is text.

The candidate is executed as module `candidate` from memory; a linecache entry lets Triton's
inspect.getsource find its text.
"""
import contextlib
import copy
import functools
import gc
import json
import linecache
import math
import os
import sys
import types

import torch
import triton.testing

import output_form
import tracer_cuda
import tracer_disguise
import tracer_drawn
import tracer_driver
import tracer_elsewhere
import tracer_movement
import tracer_plain
import tracer_probe
import tracer_record
import tracer_seal
import tracer_sites
import tracer_sizes
import tracer_source
import tracer_state
import tracer_tensor
import wire
from tracer_fault import Fault
from tracer_record import DTYPES, SOURCE_NAME
from tracer_tensor import TraceTensor
from ttir_compile import WARM_TIMES

TAPE_TEXT_MAX = 64 << 20
TEXT_MAX = 2048
OUTPUTS_MAX = 64
INDUCTOR = os.path.join("torch", "_inductor", "runtime", "triton_heuristics.py")
PADS = []      # memory between the objects of one trace and the next


CANDIDATE = "candidate"      # name of the module that the candidate becomes; the second trace draws one


class Stop(Exception):
    """Ends the job with a fault: (code, type, text, line)."""

    def __init__(self, code, kind, text, line=0):
        super().__init__(text)
        self.fault = {"code": code, "type": kind, "text": text[:TEXT_MAX], "line": line}


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
        tracer_state.install_clocks()
    tracer_driver.remember(job.get("kernels", ()))
    if job.get("asks"):
        tracer_driver.ASK = functools.partial(ask, sock)
    wire.send(sock, result_of(job, sock))
    others = list(job.get("others", []))
    while others or job.get("stays"):
        question, _ = wire.recv(sock)
        own = {k: v for k, v in job.items() if k != "others"}
        other = question.get("job") or dict(others.pop(0), earlier=own)
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
                                     lambda: tracer_probe.probe(job, sys.modules[__name__]))}
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
        module = guarded(rec, "import-error", lambda: load_candidate(job["source"], code_of(job)))
        guarded(rec, "unsupported", lambda: tracer_drawn.check_generators(is_seeded=True))
        announce("init")
        move_memory()
        before = ()
        if tracer_plain.SHELL:
            before = guarded(rec, "init-error", lambda: tracer_elsewhere.elders(job, module, rec, tracer))
        earlier = job.get("earlier")
        is_behind = earlier and not job.get("shapes_only")
        model = tracer_sizes.call_at(job, earlier, module, rec, tracer) if is_behind else None
        if model is None:
            model = guarded(rec, "init-error", lambda: build(job, module))
            place(job, model, tracer)
        announce("forward")
        rec.epoch, tracer.phase = rec.calls, "forward"
        return trace_forwards(job, rec, tracer, model, before)


def move_memory():
    """What is made next lies elsewhere than in another trace: Python serves small objects from
    pools of their size, in order of address."""
    for size in range(48, 513, 16):
        PADS.append([bytes(size - 33) for _ in range(tracer_cuda.DRAWN.randrange(64))])


def guarded(rec, code, work):
    """Runs candidate code; whatever it raises becomes a Stop. A recorded fault counts even where
    the candidate caught it, and so does an operator that failed: its words are other ones here."""
    rec.failed = None
    try:
        value = work()
    except Stop:
        raise
    except BaseException as error:   # SystemExit and KeyboardInterrupt are the candidate's too
        if rec.fault is None:
            raise stop_of(code, error) from None
    if rec.fault is not None:
        fault, line = rec.fault
        raise Stop(fault.code, "Fault", fault.text, line)
    if rec.failed is not None:
        raise Stop("unsupported", "Fault",
                   f"host code goes on after {rec.failed} failed, whose exception is not the GPU's")
    return value


def stop_of(code, error):
    if isinstance(error, Fault):
        return Stop(error.code, "Fault", error.text, traceback_line(error))
    compile_failed = error
    while compile_failed is not None and not isinstance(compile_failed, tracer_driver.CompileFailed):
        compile_failed = compile_failed.__cause__ or compile_failed.__context__
    if compile_failed is not None and code != "import-error":
        return Stop("triton-compile-error", type(compile_failed.__cause__).__name__, str(compile_failed),
                    compile_failed.line)
    if isinstance(error, tracer_driver.GridTooLarge):
        code = "grid-too-large"
    text = safe_text(error)
    # Its launcher compiles and loads kernels by itself, which nothing here does: what it meets
    # then, a refused call mostly, names nothing that the candidate could change.
    if came_through(error, INDUCTOR):
        code = "unsupported"
        text = (f"kernels are launched by Triton alone, not by TorchInductor's launcher: decorate them with triton.jit "
                f"and launch them as kernel[grid](...) ({text})")
    return Stop(code, type(error).__name__, text, traceback_line(error))


def came_through(error, file):
    tb = error.__traceback__
    while tb is not None and not tb.tb_frame.f_code.co_filename.endswith(file):
        tb = tb.tb_next
    return tb is not None


def safe_text(error):
    try:
        return str(error)
    except BaseException:
        return "(the exception has no text)"


def traceback_line(error):
    if isinstance(error, SyntaxError) and error.filename == SOURCE_NAME:
        return error.lineno or 0
    line = 0
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == SOURCE_NAME:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


# torch.library.Library objects of the candidate: its source is executed once for each size, and its
# operators are defined anew
LIBRARIES = []


def remember_libraries():
    """Once, in the zygote."""
    make = torch.library.Library.__init__

    def init(self, *args, **kwargs):
        make(self, *args, **kwargs)
        LIBRARIES.append(self)
    torch.library.Library.__init__ = init


def load_candidate(source, code=None):
    while LIBRARIES:
        LIBRARIES.pop()._destroy()
    module = types.ModuleType(CANDIDATE)
    module.__file__ = SOURCE_NAME
    sys.modules[CANDIDATE] = module
    tracer_source.TEXT = source
    lines = source.splitlines(keepends=True)
    linecache.cache[SOURCE_NAME] = (len(source), None, lines, SOURCE_NAME)
    if tracer_plain.SHELL:
        tracer_elsewhere.rename(module)
        module.__dict__["__builtins__"] = tracer_drawn.own_builtins()
        tracer_plain.GLOBALS = tracer_drawn.MODULE = module.__dict__
        code = tracer_drawn.rewritten(source, optimize=1)      # as behind python -O
    exec(code or compile(source, SOURCE_NAME, "exec", dont_inherit=True), module.__dict__)
    return module


def code_of(job):
    """Of a job whose host code has to go some ways (tracer_probe.py); None: of its text."""
    if "force" in job:
        return tracer_sites.reporting(tracer_sites.Text(job["source"]).tree, tracer_probe.Forced(job["force"]))
    return None


def build(job, module, seed=None):
    name = job.get("class", "ModelNew")
    cls = getattr(module, name, None)
    if not isinstance(cls, type):
        raise Stop("no-class", "NameError", f"the source defines no class {name}")
    args = [plain_value(v) for v in job.get("init_args", [])]
    kwargs = {k: plain_value(v) for k, v in job.get("init_kwargs", {}).items()}
    torch.manual_seed(job.get("init_seed", 0) if seed is None else seed)
    with without_values() if job.get("shapes_only") else contextlib.nullcontext():
        model = cls(*args, **kwargs)
        if isinstance(model, torch.nn.Module):
            model = moved(model)
    if not callable(getattr(model, "forward", None)):
        raise Stop("no-class", "AttributeError", f"{name} has no method forward")
    if isinstance(model, torch.nn.Module):
        model.train() if job.get("training", False) else model.eval()
    return model


def moved(model):
    """Whoever makes a module moves it to the device, and these methods may be the candidate's
    own."""
    if has_own(model, "to", "cuda", "_apply"):
        # In the second trace in other words.
        model = model.to(torch.device("cuda", 0)).cuda(0) if tracer_plain.SHELL else model.to(device="cuda").cuda()
    # What a module is must not hang on whether its weights came from a file: in
    # the second trace they do.
    parts = list(model.modules()) if tracer_plain.SHELL else ()
    if any(m._load_state_dict_pre_hooks or m._load_state_dict_post_hooks or m._state_dict_hooks
           or m._state_dict_pre_hooks or has_own(m, "load_state_dict", "_load_from_state_dict", "state_dict",
                                                 "__setstate__", "get_extra_state", "set_extra_state") for m in parts):
        model.load_state_dict(model.state_dict())
    # Nor may it hang on whether somebody copied it, froze it, or looked at it in eval mode.
    if any(has_own(m, "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
           for m in parts):
        with contextlib.suppress(Exception):
            model = copy.deepcopy(model)
    if any(has_own(m, "eval", "train", "requires_grad_", "apply", "zero_grad") for m in parts):
        wanted = [p.requires_grad for p in model.parameters()]
        model.requires_grad_(False).apply(lambda m: None).eval().train().zero_grad()
        for p, asks in zip(model.parameters(), wanted):
            p.requires_grad_(asks)
    return model


def has_own(module, *names):
    """Whether the candidate has written one of these methods."""
    return any(getattr(getattr(type(module), name, None), "__module__", None) == CANDIDATE for name in names)


@contextlib.contextmanager
def without_values():
    """At sizes where nothing is computed parameters get no values: drawing gigabytes would take
    longer than all else."""
    own = {name: getattr(torch.nn.init, name) for name in dir(torch.nn.init)
           if name.endswith("_") and not name.startswith("_")}
    try:
        for name in own:
            setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)
        yield
    finally:
        for name, function in own.items():
            setattr(torch.nn.init, name, function)


def plain_value(value):
    """init_args: everything but tensors."""
    if isinstance(value, list):
        return [plain_value(v) for v in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(plain_value(v) for v in value["tuple"])
        if "dict" in value:
            return {k: plain_value(v) for k, v in value["dict"].items()}
        if "dtype" in value:
            return DTYPES[value["dtype"]]
        if "float" in value:
            return float(value["float"])
        raise Stop("unsupported", "TypeError", f"constructor arguments of the form {sorted(value)} are not supported")
    return value


# ---- parameters and inputs ----

def place(job, model, tracer):
    """Moves the module to the device: each parameter and buffer becomes a tensor without contents,
    or a constant where the task has none like it."""
    if not isinstance(model, torch.nn.Module):
        return
    state = job.get("state", {})
    memo = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for table in (module._parameters, module._buffers):
            for key, value in table.items():
                if value is None:
                    continue
                name = f"{prefix}.{key}" if prefix else key
                if id(value) not in memo:
                    memo[id(value)] = (value, placed(value, name, state.get(name), tracer))
                table[key] = memo[id(value)][1]
    for module in model.modules():
        for key, value in list(module.__dict__.items()):
            if key not in ("_parameters", "_buffers", "_modules"):
                module.__dict__[key] = replaced(value, memo, 4)


def replaced(value, memo, depth):
    """References to moved parameters inside a module's own attributes, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return memo[id(value)][1] if id(value) in memo else value
    if depth and type(value) in (list, tuple):
        return type(value)(replaced(v, memo, depth - 1) for v in value)
    if depth and type(value) is dict:
        return {k: replaced(v, memo, depth - 1) for k, v in value.items()}
    return value


def placed(value, name, entry, tracer):
    value_of = tracer_plain.SHELL.trace_of(value) if tracer_plain.SHELL else None
    wanted = entry is not None and list(value.shape) == entry["shape"] and value.dtype == DTYPES.get(entry["dtype"])
    if wanted:
        t = meta_tensor(tracer, value.shape, None, value.dtype, "param")
    else:
        t = (value.detach() if isinstance(value, TraceTensor) else tracer.wrap(value.detach()) if value_of is None
             else value_of)
        if t._buffer.known:
            t._buffer.kind = "const"
            # a parameter is data, also one that the task does not have: what is computed from it
            # belongs on the tape
            tracer.rec.freeze(t._buffer)
    t._buffer.name = name
    t = shown(t)
    if isinstance(value, torch.nn.Parameter):
        t = torch.nn.Parameter(t, requires_grad=value.requires_grad)
    return t


def shown(t):
    """The tensor that the candidate is to see."""
    return tracer_plain.SHELL.outer(t) if tracer_plain.SHELL else t


def meta_tensor(tracer, shape, stride, dtype, kind):
    inner = (torch.empty_strided(shape, stride, dtype=dtype, device="meta") if stride is not None
             else torch.empty(shape, dtype=dtype, device="meta"))
    return tracer.wrap(inner, kind)


def make_inputs(job, tracer, is_strided=False):
    """Forward's arguments by position and by keyword, new tensors, and the buffers of the tensors
    among them in flattened order. The tensors that the reference draws at random come last: what
    the candidate draws are these. `is_strided`: with other strides than the task's."""
    buffers = []

    def make(value, show=shown):
        if isinstance(value, list):
            return [make(v) for v in value]
        if isinstance(value, dict):
            if "tensor" in value:
                spec = value["tensor"]
                stride = [2 * n for n in spec["stride"]] if is_strided and spec.get("stride") else spec.get("stride")
                t = meta_tensor(tracer, spec["shape"], stride, DTYPES[spec["dtype"]], "input")
                t._buffer.input = len(buffers)
                buffers.append(t._buffer)
                t = show(t)
                if tracer_plain.SHELL and tracer_plain.SHELL.is_leaf and t.is_floating_point() and show is shown:
                    return torch.nn.Parameter(t)
                return t.requires_grad_() if spec.get("requires_grad") else t
            if "tuple" in value:
                return tuple(make(v) for v in value["tuple"])
            if "dict" in value:
                return {k: make(v) for k, v in value["dict"].items()}
        return plain_value(value)

    with tracer_tensor.without_modes():
        args = [make(v) for v in job["inputs"]]
        kwargs = {k: make(v) for k, v in job.get("input_kwargs", {}).items()}
        # the tracer's own: nobody sees them before they are drawn
        draws = [make({"tensor": spec}, show=lambda t: t) for spec in job.get("draws", [])]
    return args, kwargs, draws, buffers


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


SURROUNDINGS = ("the form of its inputs (shape, strides, class, gradient or attributes)",
                "which parameters the module has, or whether they are trained", "whether a module is in training",
                "a mode of torch's (gradients, autocast, default dtype, precision)", "the current stream")


class Calls:
    """The forwards of one trace."""

    def __init__(self, job, rec, tracer, model):
        self.job, self.rec, self.tracer, self.model = job, rec, tracer, model
        self.args = self.kwargs = self.draws = self.buffers = None
        self.held = []           # outputs of former calls, kept alive
        self.ended = len(rec.rows)   # rows that the last call left
        self.state_bytes = {math.prod(e["shape"]) * DTYPES[e["dtype"]].itemsize
                            for e in job.get("state", {}).values() if e["dtype"] in DTYPES}

    def prepare(self, kind):
        if tracer_plain.SHELL:
            tracer_plain.SHELL.calls += 1
        if kind == "released":
            self.held.clear()
        if kind in ("same", "changed"):
            if kind == "changed":
                for t in tensors_in([self.args, self.kwargs], []):
                    torch.autograd.graph.increment_version(t)
        else:
            if tracer_plain.SHELL:
                tracer_plain.SHELL.turn()
            self.args, self.kwargs, self.draws, self.buffers = make_inputs(self.job, self.tracer, kind == "strided")
        self.check_between()
        self.tracer.draws = list(self.draws)   # each call draws from the first on
        self.rec.begin(self.buffers)

    def check_between(self):
        """Work that an object does at its end, when outputs or inputs are released, is on no call's
        tape."""
        if len(self.rec.rows) != self.ended:
            raise Stop("unsupported", "Fault", "host code launches or writes something between two calls of forward, "
                       "when tensors of an earlier one are released")

    def finish(self):
        """When the last call's tensors go, too."""
        self.held.clear()
        self.args = self.kwargs = None
        self.check_between()

    def tape(self):
        """One counted call: its tape without the contents of constants."""
        before = self.surroundings()
        out = guarded(self.rec, "forward-error", self.forward)
        for what, then, now in zip(SURROUNDINGS, before, self.surroundings()):
            if then != now:
                raise Stop("unsupported", "Fault", f"forward changes {what}, which its caller finds changed")
        self.held.append(out)
        outputs, is_tuple = flatten_output(out)
        self.check_kept(outputs)
        for t in tensors_in([out], []):
            if t.requires_grad and not torch.is_grad_enabled() and not any(
                    t is p for p in tensors_in([self.args, self.kwargs, *self.model.parameters()], [])):
                raise Stop("unsupported", "Fault", "forward returns a tensor that requires a gradient, under no_grad()")
        form = output_form.form_of(out, lambda v: isinstance(v, torch.Tensor))
        found = guarded(self.rec, "unsupported", lambda: tracer_record.tape_json(self.rec, outputs, is_tuple, form))
        self.ended = len(self.rec.rows)
        return found

    def forward(self):
        try:
            return self.model(*self.args, **self.kwargs)
        finally:
            self.rec.values.check(self.rec)

    def surroundings(self):
        """What a call of forward leaves as it was, beside all memory."""
        given = [(id(t), type(t), t.shape, t.stride(), t.storage_offset(), t.dtype, t.requires_grad, t.is_leaf
                  and t.grad is not None, [k for k in vars(t) if k not in tracer_state.TRACERS_OWN])
                 for t in tensors_in([self.args, self.kwargs], [])]
        is_module = isinstance(self.model, torch.nn.Module)
        own = [(name, id(p), p.shape, p.stride(), p.requires_grad) for name, p in self.model.named_parameters()
               ] if is_module else ()
        training = [m.training for m in self.model.modules()] if is_module else ()
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cuda"),
                 torch.get_default_dtype(), torch._C._get_deterministic_algorithms(),
                 torch.get_float32_matmul_precision(), torch._C._get_cublas_allow_tf32(),
                 torch._C._get_cudnn_allow_tf32())
        return given, own, training, modes, tracer_cuda.CURRENT[0]

    def check_kept(self, outputs):
        """Memory that was made before this call and that this call writes: what one call leaves
        there, the next may find. As an output it changes under whoever holds an earlier call's
        result."""
        kept = {id(buf) for buf in self.rec.order if self.is_kept(buf)}
        if any(id(buf) in kept for buf, *_ in outputs):
            raise Stop("nondeterministic", "Fault",
                       "forward returned memory that it made before this call and wrote to again: the result of an "
                       "earlier "
                       "call would change under whoever holds it; make the output in each call")
        if kept:
            raise Stop("nondeterministic", "Fault",
                       "forward writes into memory that was made before this call (by the constructor, or by an "
                       "earlier call): "
                       "buffers may not be kept across calls, constants may; make scratch memory in each call")

    def is_kept(self, buf):
        """Parameters and buffers that the task's model has too may be written where its forward
        does that; the replay judges it."""
        if buf.kind not in ("temp", "const") or buf.epoch == self.rec.epoch or buf.written_epoch != self.rec.epoch:
            return False
        return buf.name is None or buf.bytes not in self.state_bytes

    def disturb(self):
        """One call that does not count."""
        try:
            self.model(*self.args, **self.kwargs)
        except Exception:
            pass
        self.rec.fault = None
        self.ended = len(self.rec.rows)


def tensors_in(value, out):
    if isinstance(value, torch.Tensor):
        out.append(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            tensors_in(v, out)
    elif isinstance(value, dict):
        tensors_in(list(value.values()), out)
    return out


def trace_forwards(job, rec, tracer, model, before=()):
    """`before`: tapes of other objects of the class that were called before."""
    calls = Calls(job, rec, tracer, model)
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
            raise difference(bare, tape, number + 1)
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
            before, state = state, tracer_state.snapshot(model, sys.modules[CANDIDATE], [calls.args, calls.kwargs],
                                                         not job.get("is_other"))
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
    guarded(rec, "unsupported", lambda: tracer_drawn.check_generators(is_seeded=False))
    guarded(rec, "unsupported", lambda: tracer_driver.refuse_changes(tracer_seal.broken()))
    tracer_record.add_made(first, made)
    text = json.dumps(first, separators=(",", ":"))
    if len(text) > TAPE_TEXT_MAX:
        raise Stop("too-large", "Fault", f"the tape has {len(text)} bytes; the limit is {TAPE_TEXT_MAX}")
    return text


def difference(first, tape, call):
    """The fault for two forwards that parted: where, and why that is one."""
    head = f"forward {call} did other work than the first call"
    tail = ("every call must launch the same kernels on the same buffers: no caching of results, counters, clocks or "
            "random choices across calls")
    for i, (a, b) in enumerate(zip(first["rows"], tape["rows"])):
        if a != b:
            return Stop("nondeterministic", "Fault", f"{head}: row {i} is {brief(b)}, was {brief(a)}; {tail}",
                        b["line"])
    if len(first["rows"]) != len(tape["rows"]):
        return Stop("nondeterministic", "Fault", f"{head}: {len(tape['rows'])} rows, was {len(first['rows'])}; {tail}")
    return Stop("nondeterministic", "Fault",
                f"{head}: it used other buffers, or buffers that an earlier call had written; {tail}")


def brief(row):
    return f"{row['op']} (line {row['line']})"


def flatten_output(out):
    """The tensors that forward returned, in order: lists and tuples by position, dicts by
    insertion."""
    if out is None:
        raise Stop("no-output", "TypeError", "forward returned None")
    if isinstance(out, (int, float, str)):
        raise Stop("output-not-tensor", "TypeError", f"forward returned {type(out).__name__}, expected a tensor")
    views = []
    flatten_into(out, views)
    if not views:
        raise Stop("no-output", "TypeError", "forward returned no tensor")
    if len(views) > OUTPUTS_MAX:
        raise Stop("too-large", "ValueError", f"forward returned {len(views)} tensors; the limit is {OUTPUTS_MAX}")
    return views, not isinstance(out, torch.Tensor)


# How items are taken from a collection.
READERS = ("__iter__", "__getitem__", "__len__", "__getattribute__", "__getattr__", "values", "items", "keys", "get",
           "__reversed__", "__contains__", "__class__")


def flatten_into(out, views):
    if tracer_plain.SHELL and isinstance(out, torch.Tensor):
        found = tracer_plain.SHELL.trace_of(out)
        out = out if found is None else found
    if isinstance(out, TraceTensor):
        views.append(out.view_tuple())
    elif isinstance(out, (list, tuple, dict)):
        if any(name in vars(kind) for kind in type(out).__mro__ if kind.__module__ == CANDIDATE for name in READERS):
            raise Stop("output-not-tensor", "TypeError",
                       f"forward returned a {type(out).__name__}, which hands out its items by methods of its own")
        for item in out.values() if isinstance(out, dict) else out:
            flatten_into(item, views)
    elif isinstance(out, torch.Tensor):
        raise Stop("output-not-tensor", "TypeError", f"forward returned a tensor on {out.device}, expected cuda:0")
    elif out is not None and not isinstance(out, (int, float, str)):
        # numbers and strings are no results of kernels: not compared
        raise Stop("output-not-tensor", "TypeError", f"forward returned {type(out).__name__}, expected a tensor")


tracer_elsewhere.TRACER = tracer_sizes.TRACER = sys.modules[__name__]


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


def warm():
    """Installs the stand-ins and traces one small candidate, so that forks find every module
    imported and every table built."""
    import numpy
    import torch._prims_common
    import torch.nn.functional    # imported in front of all forks, as the next
    import triton.language.extra.libdevice    # candidates' too
    del numpy
    remember_libraries()
    tracer_cuda.install()
    tracer_driver.install()
    tracer_tensor.install()
    job = {"source": WARM_SOURCE, "init_args": [], "state": {},
           "inputs": [{"tensor": {"dtype": "float32", "shape": [2, 3, 4], "stride": [12, 4, 1]}}]}
    # A trace looks through all objects that are young, which in a job are few.
    gc.freeze()
    for _ in range(WARM_TIMES):
        trace(job, tracer_record.Recorder(), lambda name: None)
    gc.unfreeze()
    # What tells a trace from a run is put away when all of it is there.
    tracer_tensor.TRACER = tracer_driver.RECORDER = tracer_sizes.FIRST[0] = None
    tracer_cuda.begin(None)        # the last of this trace goes here and not in every fork
    tracer_disguise.install()
    tracer_seal.install()
    tracer_state.install()
    tracer_plain.HIDDEN[:] = tracer_plain.own_names()
    LIBRARIES.clear()      # what was imported on the way defined operators of torch's own: they stay
    del sys.modules["candidate"], linecache.cache[SOURCE_NAME]
