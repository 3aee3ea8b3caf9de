"""The oracle: owns one task's reference, makes the trials' inputs and parameters and computes what is expected, in its own sandboxed process.

The task's source is a stranger's code too, so this process is forked and sandboxed like a tracer's; it never sees a candidate. Bulk data leaves in sealed
memfds: `given` (inputs and parameters, which the runner may see) and `expected` (which only the supervisor sees). docs/verifier.md has the messages."""
import copy
import fcntl
import hashlib
import linecache
import os
import random
import sys
import traceback
import types

import torch
from torch.utils import _pytree as pytree

import oracle_cost
import oracle_inputs
import wire

ALIGN = 64
GIVEN_BYTES_MAX = 1 << 30
EXPECTED_BYTES_MAX = 2 << 30
F_ADD_SEALS, SEALS = 1033, 0x000F   # SEAL, SHRINK, GROW, WRITE
TASK_FILE = "task.py"
SANDBOX = {"allow_memfd": 1}


class Fault(Exception):
    """A task that cannot be judged; code is a reason code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


# ---- packing ----

class Pack:
    """Tensors one after another in a sealed memfd."""

    def __init__(self, name, limit):
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.used, self.limit, self.name = 0, limit, name

    def add(self, t):
        """(offset, bytes) of the storage that the view t spans."""
        data = _image(t)
        offset = self.used
        if offset + len(data) > self.limit:
            raise Fault("task-too-large", f"{self.name} data of one trial needs more than {self.limit >> 20} MiB")
        view = memoryview(data)
        while view:
            view = view[os.pwrite(self.fd, view, self.used):]
            self.used = offset + len(data) - len(view)
        self.used = (offset + len(data) + ALIGN - 1) // ALIGN * ALIGN
        os.ftruncate(self.fd, self.used)
        return offset, len(data)

    def seal(self):
        fcntl.fcntl(self.fd, F_ADD_SEALS, SEALS)
        return self.fd

    def close(self):
        os.close(self.fd)


def _image(t):
    """The bytes from the first to the last element of a view, gaps included."""
    t = t.detach()
    if t.numel() == 0:
        return b""
    if not t.is_contiguous():
        extent = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
        t = torch.as_strided(t, (extent,), (1,), t.storage_offset())
    return t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _dtype(t):
    return str(t.dtype).removeprefix("torch.")


def describe(value):
    """A value in the grammar of docs/worker-protocol.md."""
    if isinstance(value, torch.Tensor):
        return {"tensor": {"dtype": _dtype(value), "shape": list(value.shape), "stride": list(value.stride()), "requires_grad": value.requires_grad}}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"tuple": [describe(v) for v in value]}
    if isinstance(value, list):
        return [describe(v) for v in value]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"dict": {k: describe(v) for k, v in value.items()}}
    raise Fault("task-unsupported", f"an argument of type {type(value).__name__} cannot be passed to a candidate")


# ---- the reference ----

class Reference:
    """One executed task source: its module, model and argument makers."""

    def __init__(self, source, init_seed, announce=lambda phase: None):
        announce("import")
        self.module = types.ModuleType("task")
        self.module.__file__ = TASK_FILE
        sys.modules["task"] = self.module
        linecache.cache[TASK_FILE] = (len(source), None, source.splitlines(True), TASK_FILE)
        exec(compile(source, TASK_FILE, "exec"), self.module.__dict__)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not hasattr(self.module, name):
                raise Fault("task-broken", f"the task does not define {name}")
        announce("init")
        seed_all(init_seed)
        self.init_args = self.module.get_init_inputs()
        if not isinstance(self.init_args, (list, tuple)):
            raise Fault("task-broken", f"get_init_inputs() returned {type(self.init_args).__name__}, expected a list")
        self.init_kwargs = {}
        self.init_seed = init_seed
        self.model = self.build()

    def build(self):
        seed_all(self.init_seed)
        return self.module.Model(*copy.deepcopy(list(self.init_args)))

    def inputs(self, seed):
        seed_all(seed)
        values = self.module.get_inputs()
        if not isinstance(values, (list, tuple)):
            raise Fault("task-broken", f"get_inputs() returned {type(values).__name__}, expected a list")
        return list(values)

    def state(self):
        out = {}
        for name, t in named_tensors(self.model):
            out[name] = {"dtype": _dtype(t), "shape": list(t.shape), "sha256": hashlib.sha256(_image(t.detach().contiguous())).hexdigest()}
        return out


def bytes_of(values):
    return sum(t.numel() * t.element_size() for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor))


def size_check(reference):
    """Refuses at once a task whose data could not be handed over: without this, benchmarks made for a GPU's memory would fill this machine's for minutes
    first. Shapes come from a walk without contents; a task that cannot take one is measured when its data are there."""
    try:
        with torch.device("meta"):
            inputs = reference.inputs(0)
            given = bytes_of(inputs) + bytes_of([t for _, t in named_tensors(reference.model)])
            outputs = forward(copy.deepcopy(reference.model).to("meta"), inputs) if given <= GIVEN_BYTES_MAX else []
    except Exception:
        return
    expected = bytes_of(outputs) + sum(8 * t.numel() for t in outputs if t.is_floating_point())
    for what, size, limit in (("inputs and parameters", given, GIVEN_BYTES_MAX), ("outputs, with their fp64 twins,", expected, EXPECTED_BYTES_MAX)):
        if size > limit:
            raise Fault("task-too-large", f"{what} of one trial are {-(-size >> 20)} MiB, at most {limit >> 20} MiB are handed over; "
                        "make the task's sizes smaller")


def named_tensors(model):
    return list(model.named_parameters(remove_duplicate=False)) + list(model.named_buffers(remove_duplicate=False))


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed & 0xFFFFFFFF)
    except ImportError:
        pass


def flatten_outputs(out):
    leaves = pytree.tree_leaves(out)
    if not leaves or not all(isinstance(t, torch.Tensor) for t in leaves):
        kinds = sorted({type(t).__name__ for t in leaves})
        raise Fault("task-unsupported", f"forward returned {', '.join(kinds) or 'nothing'}; only tensors (and lists, tuples, dicts of them) can be compared")
    return leaves


def forward(model, inputs):
    with torch.no_grad():
        return flatten_outputs(model(*inputs))


def clone_values(values, double=False):
    def one(t):
        if not isinstance(t, torch.Tensor):
            return t
        if any(stride == 0 and size > 1 for stride, size in zip(t.stride(), t.shape)):
            c = t.detach().clone()
        else:
            c = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t.detach())
        return c.double() if double and t.is_floating_point() else c
    return pytree.tree_map(one, values)


def forward_double(model, inputs):
    """The reference in fp64, or None where it cannot run so. Tensors that forward makes itself become fp64 through the default dtype; a model
    that insists on another dtype is tried without."""
    for default in (torch.float64, torch.float32):
        torch.set_default_dtype(default)
        try:
            twin = copy.deepcopy(model).double()
            return forward(twin, clone_values(inputs, double=True))
        except Exception:
            continue
        finally:
            torch.set_default_dtype(torch.float32)
    return None


# ---- trials ----

def same_bytes(a, b):
    return len(a) == len(b) and all(x.dtype == y.dtype and x.shape == y.shape and _image(x.contiguous()) == _image(y.contiguous()) for x, y in zip(a, b))


class Variant:
    """The reference with one set of sizes."""

    def __init__(self, reference, changed, probe_seed):
        self.reference, self.changed = reference, changed
        self.initial = {n: t.detach().clone() for n, t in named_tensors(reference.model)}
        self.modes = [(m, m.training) for m in reference.model.modules()]
        self.training = self._settle_mode(probe_seed)
        self.model = self.fresh_model()

    def fresh_model(self):
        model = self.reference.model
        with torch.no_grad():
            for name, t in named_tensors(model):
                t.copy_(self.initial[name])
        for module, training in self.modes:
            module.training = training
        return model

    def _settle_mode(self, seed):
        """Modules stay in the mode that the constructor left them in (training, unless it says otherwise), as KernelBench does, unless forward is
        random there and not in eval mode (dropout)."""
        for is_eval in (False, True):
            if is_eval:
                self.modes = [(m, False) for m, _ in self.modes]
            outs = []
            inputs = self.reference.inputs(seed)
            for noise in (1, 2):
                model = self.fresh_model()
                seed_all(noise)
                outs.append(forward(model, clone_values(inputs)))
            if same_bytes(*outs):
                return model.training
        raise Fault("task-random", "two calls of the reference on the same inputs differ: nothing can be compared with it")

    def describe(self):
        self.fresh_model()
        return {"init_args": [describe(v) for v in self.reference.init_args], "state": self.reference.state(), "training": self.training,
                "inputs": [describe(v) for v in self.reference.inputs(0)], "changed": {n: list(v) for n, v in self.changed.items()}}


def make_inputs(variant, trial, positive):
    values = variant.reference.inputs(trial["seed"])
    if trial["distribution"] == "stock":
        return values
    generator = torch.Generator().manual_seed(trial["seed"] ^ 0x5DEECE66D)
    return pytree.tree_map(lambda t: oracle_inputs.transform(t, trial["distribution"], generator, positive) if isinstance(t, torch.Tensor) else t, values)


def run_trial(variant, trial, positive):
    """Everything about one trial as live tensors. Raises what the reference raises."""
    inputs = make_inputs(variant, trial, positive)
    model = variant.fresh_model()
    if trial["parameters"] == "random":
        oracle_inputs.randomise_state(model, trial["seed"])
    params = [(n, t.detach().clone()) for n, t in named_tensors(model)]
    exact = forward_double(model, inputs)
    given = clone_values(inputs)
    seed_all(0)
    plain = forward(model, given)
    before, after = oracle_inputs.tensors_of(inputs), oracle_inputs.tensors_of(given)
    input_changes = [not same_bytes([a], [b]) for a, b in zip(before, after)]
    now = dict(named_tensors(model))
    param_changes = {n: not same_bytes([t], [now[n].detach()]) for n, t in params}
    if exact is not None and (len(exact) != len(plain) or any(e.shape != p.shape for e, p in zip(exact, plain))):
        exact = None
    return {"inputs": before, "params": params, "plain": plain, "exact": exact, "input_changes": input_changes, "param_changes": param_changes}


def is_finite(result):
    both = result["plain"] + (result["exact"] or [])
    return all(torch.isfinite(t).all() for t in both if t.is_floating_point())


def pack_trial(index, trial, r, positive):
    given, expected = Pack("given", GIVEN_BYTES_MAX), Pack("expected", EXPECTED_BYTES_MAX)
    message = {"index": index, "distribution": trial["distribution"] + ("-positive" if positive else ""), "inputs": [], "params": [], "outputs": []}
    for t, changes in zip(r["inputs"], r["input_changes"]):
        offset, size = given.add(t)
        message["inputs"].append({"offset": offset, "bytes": size, "changes": changes})
    for name, t in r["params"]:
        offset, size = given.add(t.contiguous())
        message["params"].append({"name": name, "offset": offset, "bytes": size, "changes": r["param_changes"][name]})
    for i, plain in enumerate(r["plain"]):
        offset, _ = expected.add(plain.contiguous())
        exact = -1
        if r["exact"] is not None and plain.is_floating_point():
            exact, _ = expected.add(r["exact"][i].double().contiguous())
        message["outputs"].append({"dtype": _dtype(plain), "shape": list(plain.shape), "plain": offset, "exact": exact})
    return {"trial": message}, given, expected


def send_trial(send, index, variant, trial):
    """A hidden trial counts only where the reference is finite; references with a positive domain (logarithms, roots) get magnitudes instead. A
    trial that cannot count is reported and left out."""
    why = ""
    for positive in ((False,) if trial["distribution"] == "stock" else (False, True)):
        try:
            r = run_trial(variant, trial, positive)
        except Fault:
            raise
        except Exception as e:
            if trial["distribution"] == "stock":
                raise
            why = f"{type(e).__name__}: {e}"
            continue
        if trial["distribution"] != "stock" and not is_finite(r):
            why = "the reference is not finite there"
            continue
        message, given, expected = pack_trial(index, trial, r, positive)
        send(message, (given.seal(), expected.seal()))
        given.close()
        expected.close()
        return
    send({"trial": {"index": index, "distribution": trial["distribution"], "skipped": why[:300]}})


def find_variant(source, init_seed, stock, seed):
    """The first set of other sizes under which the reference still runs and some input has another shape."""
    shapes = [list(t.shape) for t in oracle_inputs.tensors_of(stock.reference.inputs(0))]
    for text, changed in oracle_inputs.size_variants(source):
        try:
            reference = Reference(text, init_seed)
            inputs = reference.inputs(seed)
            other = [list(t.shape) for t in oracle_inputs.tensors_of(inputs)]
            if other == shapes or not is_finite({"plain": forward(reference.model, inputs), "exact": None}):
                continue
            return Variant(Reference(text, init_seed), changed, seed)
        except Exception:
            continue
    return None


def measure_cost(variant, seed):
    model = variant.fresh_model()
    inputs = clone_values(variant.reference.inputs(seed))
    with torch.no_grad(), oracle_cost.OpLog() as log:
        out = model(*inputs)
    eager, fused = oracle_cost.launches(log, flatten_outputs(out))
    return {"eager": eager, "fused": fused}


def judge(job, send):
    """Does one job; send(message, fds) passes messages on. The last message is {"done": true}."""
    torch.set_num_threads(1)
    announce = lambda phase: send({"phase": phase})
    source, trials = job["source"], job["trials"]
    reference = Reference(source, job["init_seed"], announce)
    size_check(reference)
    announce("forward")
    stock = Variant(reference, {}, trials[0]["seed"])
    variants = [stock]
    if any(t["shape_variant"] for t in trials):
        other = find_variant(source, job["init_seed"], stock, trials[0]["seed"])
        variants += [other] if other else []
    send({"task": {"variants": [v.describe() for v in variants]}})
    for index, trial in enumerate(trials):
        if trial["shape_variant"] < len(variants):
            send_trial(send, index, variants[trial["shape_variant"]], trial)
        else:
            send({"trial": {"index": index, "distribution": trial["distribution"], "skipped": "no other sizes work"}})
    send({"cost": measure_cost(stock, trials[0]["seed"])})
    send({"done": True})


def fault_of(e):
    code = e.code if isinstance(e, Fault) else "task-memory" if isinstance(e, MemoryError) else "task-broken"
    line = 0
    for frame in traceback.extract_tb(e.__traceback__):
        if frame.filename == TASK_FILE:
            line = frame.lineno or 0
    text = str(e) if isinstance(e, Fault) else f"{type(e).__name__}: {e}"
    return {"fault": {"code": code, "type": type(e).__name__, "text": text[:1000], "line": line}}


def run(job, sock):
    """The zygote's entry. The last message is {"done": true} or a fault."""
    send = lambda message, fds=(): wire.send(sock, message, fds)
    try:
        judge(job, send)
    except BaseException as e:   # SystemExit too: a task that exits is a broken task
        send(fault_of(e))


WARM_SOURCE = """
import torch
import torch.nn as nn
N = 8
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
    def forward(self, x):
        return torch.softmax(self.linear(x).relu(), -1)
def get_inputs(): return [torch.rand(N, N)]
def get_init_inputs(): return [N]
"""


def warm():
    """Judges one small task, so that forks find every module imported: the first use of a dispatch mode alone takes a second."""
    trials = [{"seed": 1, "distribution": "sign-mixed", "shape_variant": v, "parameters": "random"} for v in (0, 1)]
    judge({"source": WARM_SOURCE, "init_seed": 1, "trials": trials}, lambda message, fds=(): None)
    sys.modules.pop("task", None)
    linecache.cache.pop(TASK_FILE, None)
